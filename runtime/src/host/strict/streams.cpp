// SPDX-License-Identifier: Apache-2.0

#include "host/strict/streams.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "host/boundary.h"
#include "host/violations.h"

namespace poolgrad::host {
namespace {

// The first use of the task that conflicts with `other`, or null.
const Use* FindConflict(const Task& task, const Use& other) {
  const auto found =
      std::find_if(task.work.uses.begin(), task.work.uses.end(), [&](const Use& use) { return Conflict(use, other); });
  return found != task.work.uses.end() ? found : nullptr;
}

void Learn(Knowledge& knowledge, uint64_t stream, uint64_t count) {
  uint64_t& known = knowledge[stream];
  known = std::max(known, count);
}

uint64_t KnownOf(const Knowledge& knowledge, uint64_t stream) {
  const auto found = knowledge.find(stream);
  return found != knowledge.end() ? found->second : 0;
}

Status NotRecorded(int code) {
  return Violation(Rule::kEventNotRecorded, code, "nothing recorded the event: there is nothing to wait for");
}

}  // namespace

bool Conflict(const Use& a, const Use& b) {
  if ((!a.written && !b.written) || a.size == 0 || b.size == 0) return false;
  const auto a_begin = reinterpret_cast<uintptr_t>(a.address);
  const auto b_begin = reinterpret_cast<uintptr_t>(b.address);
  return a_begin < b_begin ? b_begin - a_begin < a.size : a_begin - b_begin < b.size;
}

void Streams::Enter(Stream& stream) {
  stream.number = ++last_number_;
  streams_.emplace(stream.number, &stream);
}

void Streams::Leave(Stream& stream) {
  stream.queue.clear();
  streams_.erase(stream.number);
}

void Streams::LeaveAll(int32_t device) {
  for (auto entry = streams_.begin(); entry != streams_.end();) {
    Stream& stream = *entry->second;
    ++entry;  // first, because Leave removes the entry
    if (stream.device == device) Leave(stream);
  }
}

Status Streams::Submit(Stream& stream, Task task) {
  if (stream.failed) return stream.failure;
  RecordRaces(stream, task);
  stream.queue.push_back(std::move(task));
  return {};
}

Status Streams::Synchronize(Stream& stream) {
  Drive(stream.End());
  return stream.failure;
}

Status Streams::SynchronizeAll(int32_t device) {
  Status failure;
  for (const auto& [number, stream] : streams_) {
    if (stream->device != device) continue;
    if (Status status = Synchronize(*stream); !status.ok()) failure = std::move(status);
  }
  return failure;
}

Status Streams::RecordEvent(Event& event, const Stream& stream) {
  if (stream.failed) return stream.failure;
  event.point = stream.End();
  event.knowledge = stream.knowledge;
  Learn(event.knowledge, stream.number, event.point->count);
  return {};
}

Status Streams::Wait(Stream& stream, const Event& event) {
  if (stream.failed) return stream.failure;
  if (!event.point) {
    NotRecorded(ACL_SUCCESS);
    return {};
  }
  for (const auto& [number, count] : event.knowledge) Learn(stream.knowledge, number, count);
  if (event.point->stream == stream.number || IsReached(*event.point)) return {};
  return Submit(stream, {current_function, {{}, [](const Addresses&) { return Status{}; }}, event.point});
}

Status Streams::Synchronize(const Event& event) {
  if (!event.point) return NotRecorded(ACL_ERROR_RT_PARAM_INVALID);
  Drive(*event.point);
  return FailureUpTo(*event.point);
}

bool Streams::IsComplete(const Event& event) const {
  return event.point && IsReached(*event.point) && FailureUpTo(*event.point).ok();
}

bool Streams::IsUsed(const Use& use) const { return FindUser(use).use != nullptr; }

std::string Streams::UserOf(const Use& use) const {
  const User user = FindUser(use);
  if (user.use == nullptr) return "";
  return Text(user.function, " of stream ", user.stream, " (", user.use->name, ')');
}

Streams::User Streams::FindUser(const Use& use) const {
  for (const auto& [number, stream] : streams_) {
    for (const Task& task : stream->queue) {
      if (const Use* used = FindConflict(task, use)) return {task.function, number, used};
    }
  }
  return {};
}

Stream* Streams::Find(uint64_t number) const {
  const auto found = streams_.find(number);
  return found != streams_.end() ? found->second : nullptr;
}

bool Streams::IsReached(const Point& point) const {
  const Stream* stream = Find(point.stream);
  return stream == nullptr || stream->done >= point.count;
}

Status Streams::FailureUpTo(const Point& point) const {
  const Stream* stream = Find(point.stream);
  const bool failed = stream != nullptr && stream->failed && *stream->failed < point.count;
  return failed ? stream->failure : Status{};
}

// Terminates, because a task waits only for tasks that were queued before it.
void Streams::Drive(const Point& point) {
  std::vector<Point> goals{point};
  while (!goals.empty()) {
    if (IsReached(goals.back())) {
      goals.pop_back();
      continue;
    }
    Stream& stream = *Find(goals.back().stream);
    const std::optional<Point> after = stream.queue.front().after;
    if (after && !IsReached(*after)) {
      goals.push_back(*after);
    } else {
      RunNext(stream);
    }
  }
}

void Streams::RunNext(Stream& stream) {
  const Task task = std::move(stream.queue.front());
  stream.queue.pop_front();
  const Status status = run_(task.work);
  TraceRun(task.function, stream.number, status.code);
  ++stream.done;
  if (status.ok()) return;
  stream.failed = stream.done - 1;
  stream.failure = {status.code, Text("in work that ", task.function, " queued: ", status.message)};
  stream.done += stream.queue.size();
  stream.queue.clear();
}

void Streams::RecordRaces(const Stream& stream, const Task& task) const {
  for (const auto& [number, other] : streams_) {
    const uint64_t known = KnownOf(stream.knowledge, number);
    for (size_t i = 0; number != stream.number && i < other->queue.size(); ++i) {
      if (other->done + i < known) continue;
      for (const Use& use : task.work.uses) {
        const Use* used = FindConflict(other->queue[i], use);
        if (used == nullptr) continue;
        Record(Rule::kRace, Text(use.name, ", ", use.size, " bytes at ", use.address, ", is ", used->name, " of ",
                                 other->queue[i].function, " queued in stream ", number, ", for which stream ",
                                 stream.number, " does not wait"));
      }
    }
  }
}

}  // namespace poolgrad::host
