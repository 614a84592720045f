// SPDX-License-Identifier: Apache-2.0

// Preloaded into a process: makes allocations of C++ fail on the calling thread.
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

thread_local long until_failure = 0;  // 0: none fails; negative: one has failed
thread_local bool fails_from_then_on = false;

}  // namespace

extern "C" {

// The nth allocation from now on, counted from 1.
void FailAllocation(long nth) { until_failure = nth; }

// The same, and every later one.
void FailAllocationsFrom(long nth) {
  until_failure = nth;
  fails_from_then_on = true;
}

// Lets all of them succeed again. Returns whether one was made to fail.
bool HaveFailed() {
  const bool failed = until_failure < 0;
  until_failure = 0;
  fails_from_then_on = false;
  return failed;
}

}  // extern "C"

void* operator new(std::size_t size) {
  if (until_failure > 0 && --until_failure == 0) {
    until_failure = -1;
    throw std::bad_alloc();
  }
  if (until_failure < 0 && fails_from_then_on) throw std::bad_alloc();
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
