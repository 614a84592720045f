// SPDX-License-Identifier: Apache-2.0

// Violations of CANN's rules by a caller. For some CANN returns a code. For many it returns none: a device would
// compute other values, crash, or leak. Each violation is recorded, also if the call cannot fail any more.
#ifndef POOLGRAD_HOST_VIOLATIONS_H_
#define POOLGRAD_HOST_VIOLATIONS_H_

#include <cstdint>
#include <string>

#include "host/live.h"
#include "host/status.h"

namespace poolgrad::host {

enum class Rule {
  kStaleHandle,         // a handle that was destroyed, or is not of this library
  kExecutorReferences,  // a tensor or list of the call was destroyed before phase 2
  kExecutorShared,      // two concurrent calls use one executor
  kForeignTensor,       // aclSetTensorAddr of a tensor that the executor does not have
  kWorkspace,           // less workspace than phase 1 returned
  kOtherDevice,         // memory, a stream or an event of one device, used on another
  kBadAddress,          // memory that is not allocated, or host memory in place of device memory or the reverse
  kMisaligned,          // a tensor whose address is not a multiple of 32 bytes
  kBadFree,             // freeing an address where no allocation of the kind begins
  kMemoryInUse,         // freeing memory that queued work still uses
  kRace,                // using memory that unordered work still uses
  kEventNotRecorded,    // waiting for an event that nothing recorded
  kKnownFault,          // a call that CANN takes and computes wrong
  kLeak,                // an object that is alive at the end of a context or of acl
};

const char* RuleName(Rule rule);

// Records the violation, with the function that the thread executes.
void Record(Rule rule, const std::string& message);

// Records the violation and returns a Status with its code and message.
template <typename... Parts>
Status Violation(Rule rule, int code, const Parts&... parts) {
  Status status = Fail(code, parts...);
  Record(rule, status.message);
  return status;
}

// Records a leak unless the count is 0.
void RecordLeak(Kind kind, size_t count, const char* when);

std::string ViolationLines();  // one JSON object a line
uint64_t ViolationCount();
void ForgetViolations();

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_VIOLATIONS_H_
