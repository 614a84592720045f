// SPDX-License-Identifier: Apache-2.0

#include "host/violations.h"

#include <mutex>
#include <vector>

#include "host/boundary.h"
#include "host/trace.h"

namespace poolgrad::host {
namespace {

struct Violations {
  std::mutex mutex;
  std::vector<std::string> lines;
};

Violations& All() {
  static auto* const violations = new Violations;  // never destroyed: calls may come at exit
  return *violations;
}

}  // namespace

const char* RuleName(Rule rule) {
  switch (rule) {
    case Rule::kStaleHandle:
      return "stale-handle";
    case Rule::kExecutorReferences:
      return "executor-references";
    case Rule::kExecutorShared:
      return "executor-shared";
    case Rule::kForeignTensor:
      return "foreign-tensor";
    case Rule::kWorkspace:
      return "workspace";
    case Rule::kOtherDevice:
      return "other-device";
    case Rule::kBadAddress:
      return "bad-address";
    case Rule::kMisaligned:
      return "misaligned";
    case Rule::kBadFree:
      return "bad-free";
    case Rule::kMemoryInUse:
      return "memory-in-use";
    case Rule::kRace:
      return "race";
    case Rule::kEventNotRecorded:
      return "event-not-recorded";
    case Rule::kKnownFault:
      return "known-fault";
    case Rule::kLeak:
      return "leak";
  }
  return "unknown rule";
}

void Record(Rule rule, const std::string& message) {
  const std::string line = Text("{\"violation\": \"", RuleName(rule), "\", \"function\": \"", current_function,
                                "\", \"message\": ", Quoted(message), '}');
  TraceLine(line);
  Violations& violations = All();
  const std::lock_guard lock(violations.mutex);
  violations.lines.push_back(line);
}

void RecordLeak(Kind kind, size_t count, const char* when) {
  if (count > 0) Record(Rule::kLeak, Text(count, ' ', KindName(kind), " alive when ", when));
}

std::string ViolationLines() {
  Violations& violations = All();
  const std::lock_guard lock(violations.mutex);
  std::string text;
  for (const std::string& line : violations.lines) text += line + "\n";
  return text;
}

uint64_t ViolationCount() {
  Violations& violations = All();
  const std::lock_guard lock(violations.mutex);
  return violations.lines.size();
}

void ForgetViolations() {
  Violations& violations = All();
  const std::lock_guard lock(violations.mutex);
  violations.lines.clear();
}

}  // namespace poolgrad::host
