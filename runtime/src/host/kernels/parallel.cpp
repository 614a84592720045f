// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/parallel.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

namespace poolgrad::host {
namespace {

// The number of elements whose work takes a few times as long as waking a thread.
constexpr int64_t kGrain = 1 << 16;

// More ranges than threads, so that a thread that starts late or runs slowly takes fewer.
constexpr int64_t kRangesPerThread = 4;

std::atomic<int64_t> thread_limit = 0;  // 0: one for each core

int64_t Threads() {
  // Read once: reading it takes as long as a small call.
  static const int64_t cores = std::max<int64_t>(1, std::thread::hardware_concurrency());
  const int64_t limit = thread_limit.load(std::memory_order_relaxed);
  return limit == 0 ? cores : limit;
}

// The ranges of one call. Each is given to the next thread that is ready.
class Ranges {
 public:
  Ranges(int64_t count, int64_t ranges, const RangeBody& body) : count_(count), ranges_(ranges), body_(body) {}

  void Work() noexcept {
    while (WorkOnNext()) {
    }
  }

  // False if no range is left.
  bool WorkOnNext() noexcept {
    const int64_t range = next_++;
    if (range >= ranges_) return false;
    try {
      body_(Begin(range), Begin(range + 1));
    } catch (...) {
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
    }
    return true;
  }

  int64_t count() const { return ranges_; }

  void Rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  int64_t Begin(int64_t range) const { return count_ / ranges_ * range + std::min(range, count_ % ranges_); }

  const int64_t count_, ranges_;
  const RangeBody& body_;
  std::atomic<int64_t> next_ = 0;
  std::mutex mutex_;
  std::exception_ptr error_;
};

// Looks for a condition for about as long as waking a thread takes, or until it holds.
template <typename Condition>
void LookFor(const Condition& condition) {
  constexpr int kLooks = 2000;
  for (int i = 0; i < kLooks && !condition(); ++i) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb");  // waits for about as long as a pause of x86
#endif
  }
}

// The threads that help a calling thread with its ranges. They are started when they are first needed and never joined.
class Team {
 public:
  // Works on the ranges with up to `threads` threads, including the calling one. False if another call uses the team.
  bool TryWork(Ranges& ranges, int64_t threads) {
    const std::unique_lock mine(in_use_, std::try_to_lock);
    if (!mine) return false;
    Offer(ranges, threads - 1);
    ranges.Work();
    std::unique_lock lock(mutex_);
    places_ = 0;
    lock.unlock();
    const auto are_done = [&] { return working_ == 0; };
    LookFor(are_done);
    lock.lock();
    done_.wait(lock, are_done);
    return true;
  }

 private:
  void Offer(Ranges& ranges, int64_t members) {
    const std::lock_guard lock(mutex_);
    try {
      for (; members_ < members; ++members_) std::thread(&Team::Member, this).detach();
    } catch (const std::system_error&) {
      // No more threads can be started: the existing ones do the work.
    }
    offered_ = &ranges;
    places_ = members;
    wake_.notify_all();
  }

  void Member() {
    const auto is_wanted = [&] { return places_ > 0; };
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, is_wanted);
      Ranges& ranges = *offered_;
      --places_;
      ++working_;
      lock.unlock();
      ranges.Work();
      lock.lock();
      if (--working_ == 0) done_.notify_one();
      lock.unlock();
      LookFor(is_wanted);  // the next call often follows at once
      lock.lock();
    }
  }

  std::mutex in_use_;  // held by the call that uses the team
  std::mutex mutex_;   // guards the members below
  std::condition_variable wake_, done_;
  Ranges* offered_ = nullptr;        // valid while there are places, or a thread works
  std::atomic<int64_t> places_ = 0;  // the number of threads that may still join the work
  std::atomic<int64_t> working_ = 0;
  int64_t members_ = 0;
};

std::atomic<Team*> current_team = nullptr;

// A forked child has none of the threads, and its copies of the locks may be held: it abandons the team and creates its
// own.
void ForgetTeam() { current_team = nullptr; }

Team& TheTeam() {
  static const int registered = pthread_atfork(nullptr, nullptr, ForgetTeam);
  static_cast<void>(registered);
  Team* team = current_team;
  if (team != nullptr) return *team;
  Team* const made = new Team;
  if (current_team.compare_exchange_strong(team, made)) return *made;
  delete made;
  return *team;
}

// The function of the calling thread's user that distributes ranges.
struct Sharing {
  aclnnHostParallelFor parallel_for;
  void* context;
};

thread_local Sharing sharing = {};

// Runs one range on a thread of that function.
void WorkOnLentThread(void* ranges, std::size_t /*index*/) { static_cast<Ranges*>(ranges)->WorkOnNext(); }

void Share(Ranges& ranges, int64_t threads) {
  if (sharing.parallel_for != nullptr) {
    return sharing.parallel_for(sharing.context, WorkOnLentThread, static_cast<std::size_t>(ranges.count()), &ranges);
  }
  if (!TheTeam().TryWork(ranges, threads)) ranges.Work();
}

}  // namespace

void ShareRangesBy(aclnnHostParallelFor parallel_for, void* context) { sharing = {parallel_for, context}; }

void LimitThreads(int64_t count) { thread_limit = count; }

// If another call uses the team, the cores are busy, and the calling thread works alone.
void ForRanges(int64_t count, int64_t cost, const RangeBody& body) {
  const int64_t items_of_grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, cost));
  const int64_t grains = std::max<int64_t>(1, count / items_of_grain);
  const int64_t threads = std::min(grains, Threads());
  if (threads == 1) return body(0, count);
  Ranges ranges(count, std::min(grains, threads * kRangesPerThread), body);
  Share(ranges, threads);
  ranges.Rethrow();
}

}  // namespace poolgrad::host
