// SPDX-License-Identifier: Apache-2.0

// A shared library opened by path, and what a test program does when something is wrong: say so and end.
#ifndef POOLGRAD_TESTS_NATIVE_LIBRARY_H_
#define POOLGRAD_TESTS_NATIVE_LIBRARY_H_

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace native {

[[noreturn]] inline void Die(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  std::exit(1);
}

inline void Expect(bool holds, const std::string& message) {
  if (!holds) Die(message);
}

// Stays open until the process ends.
class Library {
 public:
  explicit Library(const char* path) : handle_(dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) Die(dlerror());
  }

  template <typename Function>
  Function Find(const std::string& name) const {
    void* address = dlsym(handle_, name.c_str());
    if (address == nullptr) Die(dlerror());
    return reinterpret_cast<Function>(address);
  }

 private:
  void* handle_;
};

}  // namespace native

#endif  // POOLGRAD_TESTS_NATIVE_LIBRARY_H_
