// SPDX-License-Identifier: Apache-2.0

// Streams that run their work when a caller waits for it, and the events between them.
#ifndef POOLGRAD_HOST_STRICT_STREAMS_H_
#define POOLGRAD_HOST_STRICT_STREAMS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "host/hardware.h"

namespace poolgrad::host {

// A point in a stream: its first `count` tasks are done.
struct Point {
  uint64_t stream;
  uint64_t count;
};

// For each stream, the number of its tasks that are certain to be done (a vector clock). Work that is ordered after a
// point inherits the knowledge at that point.
using Knowledge = std::map<uint64_t, uint64_t>;

// Whether the two uses overlap in memory and one of them writes.
bool Conflict(const Use& a, const Use& b);

struct Task {
  const char* function;  // the function that submitted it
  Work work;
  std::optional<Point> after;  // a point of another stream that must be reached first
};

struct Stream {
  int32_t device = kNoDevice;
  uint64_t number = 0;  // never reused
  std::deque<Task> queue = {};
  uint64_t done = 0;  // number of tasks taken from the queue
  Knowledge knowledge = {};
  std::optional<uint64_t> failed = {};  // the task that failed, counted from 0
  Status failure = {};

  Point End() const { return {number, done + queue.size()}; }
};

struct Event {
  int32_t device = kNoDevice;
  std::optional<Point> point = {};  // none before it is recorded
  Knowledge knowledge = {};
};

// After a task failed, its stream is in error: the queued work is dropped, and every call on the stream returns the
// failure until it is destroyed. Not thread-safe.
class Streams {
 public:
  explicit Streams(std::function<Status(const Work&)> run) : run_(std::move(run)) {}

  void Enter(Stream& stream);  // adds the stream and sets its number
  void Leave(Stream& stream);  // drops the stream's queued work and removes it
  void LeaveAll(int32_t device);

  // Queues the task. Fails if the stream is in error. Records a race for each task of another stream that conflicts
  // with it and is not certain to be done.
  Status Submit(Stream& stream, Task task);

  // Runs all tasks of the stream, and the tasks of other streams that these wait for.
  Status Synchronize(Stream& stream);

  // Runs all tasks of the device's streams. Returns the failure of a stream in error, if there is one.
  Status SynchronizeAll(int32_t device);

  Status RecordEvent(Event& event, const Stream& stream);
  Status Wait(Stream& stream, const Event& event);
  Status Synchronize(const Event& event);
  bool IsComplete(const Event& event) const;  // recorded and reached, and no task before it failed

  // Whether queued work of any stream conflicts with the use. UserOf describes that work, such as "aclrtMemset of
  // stream 2 (memory)", or returns "".
  bool IsUsed(const Use& use) const;
  std::string UserOf(const Use& use) const;

 private:
  // Queued work and one of its uses; null if there is none.
  struct User {
    const char* function = nullptr;
    uint64_t stream = 0;
    const Use* use = nullptr;
  };

  User FindUser(const Use& use) const;
  Stream* Find(uint64_t number) const;  // null if it was removed
  bool IsReached(const Point& point) const;
  Status FailureUpTo(const Point& point) const;
  void Drive(const Point& point);
  void RunNext(Stream& stream);
  void RecordRaces(const Stream& stream, const Task& task) const;

  const std::function<Status(const Work&)> run_;
  uint64_t last_number_ = 0;
  std::map<uint64_t, Stream*> streams_;
};

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_STRICT_STREAMS_H_
