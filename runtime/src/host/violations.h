// Rules of CANN that a caller broke. Some have a return code, many have none: a device would compute something else,
// or crash, or leak. Each is recorded, whether or not the call that broke it can still fail.
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
  kExecutorShared,      // an executor is in two calls at a time
  kForeignTensor,       // aclSetTensorAddr of a tensor that is none of the executor's
  kWorkspace,           // less workspace than phase 1 said
  kOtherDevice,         // memory, a stream or an event of one device, used on another
  kBadAddress,          // memory that is not there, or on the wrong side
  kMisaligned,          // a tensor whose address is no multiple of 32 bytes
  kBadFree,             // freeing what is no allocation of the kind
  kMemoryInUse,         // freeing what queued work still uses
  kRace,                // memory that unordered work still uses
  kEventNotRecorded,    // waiting for an event that nothing recorded
  kLeak,                // alive at the end of the device or of acl
};

const char* RuleName(Rule rule);

// Records the breach, with the function that the thread is in.
void Record(Rule rule, const std::string& message);

// Records it and fails: Status{code, message}.
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
