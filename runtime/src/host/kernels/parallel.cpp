#include "host/kernels/parallel.h"

#include <algorithm>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace poolgrad::host {
namespace {

// Elements that take a few times as long as a thread takes to start.
constexpr int64_t kGrain = 1 << 17;

int64_t ThreadCount(int64_t count, int64_t cost) {
  // Asked once: it costs as much as a small call.
  static const int64_t cores = std::max<int64_t>(1, std::thread::hardware_concurrency());
  const int64_t items_of_grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, cost));
  return std::clamp<int64_t>(count / items_of_grain, 1, cores);
}

}  // namespace

// Threads live for one call: no pool to shut down at exit or to lose in a forked child.
void ForRanges(int64_t count, int64_t cost, const std::function<void(int64_t begin, int64_t end)>& body) {
  const int64_t ranges = ThreadCount(count, cost);
  std::vector<std::exception_ptr> errors(static_cast<size_t>(ranges));
  const auto run = [&](int64_t range) noexcept {
    const int64_t begin = count / ranges * range + std::min(range, count % ranges);
    const int64_t end = count / ranges * (range + 1) + std::min(range + 1, count % ranges);
    try {
      body(begin, end);
    } catch (...) {
      errors[static_cast<size_t>(range)] = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(ranges));
  int64_t started = 1;  // range 0 is the calling thread's
  try {
    for (; started < ranges; ++started) threads.emplace_back(run, started);
  } catch (const std::system_error&) {
    // No more threads to be had: the calling thread does the rest.
  }
  run(0);
  for (int64_t range = started; range < ranges; ++range) run(range);
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace poolgrad::host
