// SPDX-License-Identifier: Apache-2.0

// What memory alone takes: reading so many bytes and writing so many, on all cores, and doing nothing else.
#include <omp.h>

#include <cstdint>
#include <cstring>

namespace {

// Where a part of `count` begins, of as many parts as there are threads.
std::int64_t Begin(std::int64_t count, int part) { return count / omp_get_num_threads() * part; }

std::uint64_t Sum(const std::uint64_t* from, const std::uint64_t* end) {
  std::uint64_t sum = 0;
  for (; from < end; ++from) sum += *from;
  return sum;
}

}  // namespace

extern "C" {

// Each thread reads its part of `read` words and overwrites its part of `written` words. Returns the sum of those read,
// so that no compiler leaves them unread.
std::uint64_t MoveWords(const std::uint64_t* from, std::int64_t read, std::uint64_t* to, std::int64_t written) {
  std::uint64_t sum = 0;
#pragma omp parallel reduction(+ : sum)
  {
    const int part = omp_get_thread_num();
    sum += Sum(from + Begin(read, part), from + Begin(read, part + 1));
    const std::int64_t begin = Begin(written, part);
    std::memset(to + begin, 1, static_cast<std::size_t>(Begin(written, part + 1) - begin) * sizeof(*to));
  }
  return sum;
}

}  // extern "C"
