// Streams that keep their work until somebody waits for it, and the events between them.
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

// The moment in a stream's life when its first `count` tasks are done.
struct Point {
  uint64_t stream;
  uint64_t count;
};

// For each stream, how many of its tasks are certain to be done. What is ordered after a point knows what was known
// there.
using Knowledge = std::map<uint64_t, uint64_t>;

// Whether both use the same memory and one of them writes it.
bool Conflict(const Use& a, const Use& b);

struct Task {
  const char* function;  // that submitted it
  Work work;
  std::optional<Point> after;  // of another stream, to be reached first
};

struct Stream {
  int32_t device = kNoDevice;
  uint64_t number = 0;  // numbers are not used again
  std::deque<Task> queue = {};
  uint64_t done = 0;  // tasks taken from the queue
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

// After a task failed its stream is broken: what it still had to do is dropped, and every call on it answers with the
// failure until it is destroyed. Not for several threads at a time.
class Streams {
 public:
  explicit Streams(std::function<Status(const Work&)> run) : run_(std::move(run)) {}

  void Enter(Stream& stream);  // from now on it is known by its number, which this sets
  void Leave(Stream& stream);  // its work is done, or will not be
  void LeaveAll(int32_t device);

  // The stream's failure if it is broken. Records a race for each task of another stream that uses the same memory and
  // is not certain to be done.
  Status Submit(Stream& stream, Task task);

  // Does what the stream was given, and what that waits for, up to its last task.
  Status Synchronize(Stream& stream);

  // Does what all streams of the device were given. The failure of a broken one, if there is one.
  Status SynchronizeAll(int32_t device);

  Status RecordEvent(Event& event, const Stream& stream);
  Status Wait(Stream& stream, const Event& event);
  Status Synchronize(const Event& event);
  bool IsComplete(const Event& event) const;  // if it was recorded, and no task before it failed

  // Queued work, of any stream, that uses the same memory, one of the two writing it: whether there is any, and which,
  // as "aclrtMemset of stream 2 (memory)" or "".
  bool IsUsed(const Use& use) const;
  std::string UserOf(const Use& use) const;

 private:
  // Queued work and which of its uses; null if there is none.
  struct User {
    const char* function = nullptr;
    uint64_t stream = 0;
    const Use* use = nullptr;
  };

  User FindUser(const Use& use) const;
  Stream* Find(uint64_t number) const;  // null if it left
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
