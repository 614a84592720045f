// SPDX-License-Identifier: Apache-2.0

// Lets a library that is compiled with glibc 2.32 or newer open with an older one, as many systems that ATC runs on
// have it: the headers of libstdc++ ask glibc with this variable whether the process has one thread. No is always
// right.
extern "C" {
extern char __libc_single_threaded;
char __libc_single_threaded = 0;
}
