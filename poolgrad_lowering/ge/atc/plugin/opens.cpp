// SPDX-License-Identifier: Apache-2.0

// Opens a library as ATC opens a plugin, with all its symbols, and says what is missing. ATC itself only writes a
// warning to its log.

#include <dlfcn.h>

#include <cstdio>

int main(int count, char** arguments) {
  if (count != 2) return 2;
  if (dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) != nullptr) return 0;
  std::fprintf(stderr, "%s\n", dlerror());
  return 1;
}
