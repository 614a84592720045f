// How functions of this library report failure, and the one place where a failure crosses the C boundary.
// Inside the library a Status is returned; only Boundary knows the thread's message of aclGetRecentErrMsg.
#ifndef POOLGRAD_HOST_STATUS_H_
#define POOLGRAD_HOST_STATUS_H_

#include <exception>
#include <new>
#include <sstream>
#include <string>

#include "abi/acl.h"

namespace poolgrad::host {

// A return code of acl or aclnn, and what a user should read about it.
struct Status {
  int code = ACL_SUCCESS;
  std::string message;

  bool ok() const { return code == ACL_SUCCESS; }
};

// Status{code, message}, the message being the parts one after another.
template <typename... Parts>
Status Fail(int code, const Parts&... parts) {
  std::ostringstream message;
  (message << ... << parts);
  return {code, message.str()};
}

// Keeps "function: message (code name)" for the calling thread's aclGetRecentErrMsg.
void SetRecentMessage(const char* function, int code, const char* message) noexcept;

// Runs the body of the C function `function`: a failed Status becomes its code and the thread's message,
// an exception becomes a code, `out_of_memory` for std::bad_alloc.
template <typename Body>
int Boundary(const char* function, Body&& body, int out_of_memory = ACL_ERROR_BAD_ALLOC) noexcept {
  try {
    const Status status = body();
    if (!status.ok()) SetRecentMessage(function, status.code, status.message.c_str());
    return status.code;
  } catch (const std::bad_alloc&) {
    SetRecentMessage(function, out_of_memory, "out of host memory");
    return out_of_memory;
  } catch (const std::exception& error) {
    SetRecentMessage(function, ACL_ERROR_INTERNAL_ERROR, error.what());
    return ACL_ERROR_INTERNAL_ERROR;
  }
}

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_STATUS_H_
