// SPDX-License-Identifier: Apache-2.0

// Failed calls of acl and aclnn become exceptions with all that is known about the failure.
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

// Throws CallError with the function, the code and its name, the text of aclGetRecentErrMsg for this thread, and advice
// if the cause is known.
[[noreturn]] void ThrowFailure(const Api& api, const char* function, int code);

// Calls ThrowFailure unless the code is 0.
inline void Check(const Api& api, const char* function, int code) {
  if (code != ACL_SUCCESS) ThrowFailure(api, function, code);
}

// For a code that is not treated as a failure. If it is not 0, clears the message of aclGetRecentErrMsg for this
// thread: otherwise another library of the process, such as onnxruntime's CANN provider, would report it as its own
// error.
inline void Tolerate(const Api& api, int code) {
  if (code != ACL_SUCCESS) api.aclGetRecentErrMsg();
}

// As Check, for a function that returns an object, or null if it fails. Throws std::runtime_error.
void CheckCreated(const Api& api, const char* function, const void* made);

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_FAILURE_H_
