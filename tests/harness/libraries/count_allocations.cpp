// SPDX-License-Identifier: Apache-2.0

// Preloaded into a process: counts the heap allocations that one library makes, by itself or through the C++ library,
// or all those that it has no part in.
#include <dlfcn.h>
#include <execinfo.h>

#include <atomic>
#include <cstddef>
#include <cstring>

extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* memory, std::size_t size);
}

namespace {

// Part of the library's file name; null: nothing is counted. Other threads allocate while it changes.
std::atomic<const char*> counted{nullptr};
std::atomic<bool> counts_others{false};  // not what the library makes, but what is made without it
std::atomic<long> allocations{0};
thread_local bool looking = false;

bool Is(const char* file, const char* part) { return std::strstr(file, part) != nullptr; }

// Whether the innermost frame that belongs neither to this library nor to those of the language is of the library; with
// `anywhere`, whether any frame is.
bool IsFrom(const char* library, bool anywhere) {
  void* frames[32];
  const int depth = backtrace(frames, 32);
  for (int i = 0; i < depth; ++i) {
    Dl_info place;
    if (dladdr(frames[i], &place) == 0 || place.dli_fname == nullptr) continue;
    const char* file = place.dli_fname;
    if (Is(file, "count_allocations") || Is(file, "libstdc++") || Is(file, "libc.so")) continue;
    if (Is(file, library)) return true;
    if (!anywhere) return false;
  }
  return false;
}

void Count() {
  const char* const library = counted;
  if (library == nullptr || looking) return;
  looking = true;
  const bool others = counts_others;
  if (IsFrom(library, others) != others) ++allocations;
  looking = false;
}

}  // namespace

extern "C" {

void* malloc(std::size_t size) {
  Count();
  return __libc_malloc(size);
}

void* calloc(std::size_t count, std::size_t size) {
  Count();
  return __libc_calloc(count, size);
}

void* realloc(void* memory, std::size_t size) {
  Count();
  return __libc_realloc(memory, size);
}

// From now on the allocations of the library of this name are counted, or those that it has no part in.
void StartCounting(const char* name, bool others) {
  void* frame[1];
  backtrace(frame, 1);  // allocates when it is called first
  allocations = 0;
  counts_others = others;
  counted = name;
}

long StopCounting() {
  counted = nullptr;
  return allocations;
}
}
