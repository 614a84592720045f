// What a failed call of acl or aclnn becomes: an exception with everything that is known about it.
#ifndef POOLGRAD_ACLNN_FAILURE_H_
#define POOLGRAD_ACLNN_FAILURE_H_

#include <stdexcept>
#include <string>

#include "aclnn/api.h"

namespace poolgrad::aclnn {

// A call that failed with a code.
class CallError : public std::runtime_error {
 public:
  CallError(int code, const std::string& message) : std::runtime_error(message), code_(code) {}
  int code() const { return code_; }

 private:
  int code_;
};

// Throws CallError: the function, the code and its name, the text that aclGetRecentErrMsg has for this thread, and
// advice where the cause is known.
[[noreturn]] void ThrowFailure(const Api& api, const char* function, int code);

// Does so unless the code is 0.
inline void Check(const Api& api, const char* function, int code) {
  if (code != ACL_SUCCESS) ThrowFailure(api, function, code);
}

// Takes a code that is no failure here. If it is not 0, clears what aclGetRecentErrMsg has for this thread: another
// library of the process, such as onnxruntime's CANN provider, would take the message for an error of its own.
inline void Tolerate(const Api& api, int code) {
  if (code != ACL_SUCCESS) api.aclGetRecentErrMsg();
}

// As Check, for a function that returns what it made, or null. Throws std::runtime_error.
void CheckCreated(const Api& api, const char* function, const void* made);

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_FAILURE_H_
