// The one place where a call crosses the C boundary. Every exported function of CANN's runs its body in Boundary: that
// is where exceptions end, where the thread's message of aclGetRecentErrMsg is kept, where a call is traced, and where
// one is made to fail by request.
#ifndef POOLGRAD_HOST_BOUNDARY_H_
#define POOLGRAD_HOST_BOUNDARY_H_

#include <exception>
#include <new>

#include "host/injection.h"
#include "host/status.h"
#include "host/trace.h"

namespace poolgrad::host {

// The function that the calling thread is in, or was in last, for messages.
inline thread_local const char* current_function = "";

// Keeps "function: message (code name)" for the calling thread's aclGetRecentErrMsg.
void SetRecentMessage(const char* function, int code, const char* message) noexcept;

// Runs the body of the C function `function`: a failed Status becomes its code and the thread's message,
// an exception becomes a code, `out_of_memory` for std::bad_alloc.
template <typename Body>
int RunGuarded(const char* function, Body&& body, int out_of_memory) noexcept {
  try {
    const Status status = body();
    if (!status.message.empty()) SetRecentMessage(function, status.code, status.message.c_str());
    return status.code;
  } catch (const std::bad_alloc&) {
    SetRecentMessage(function, out_of_memory, "out of host memory");
    return out_of_memory;
  } catch (const std::exception& error) {
    SetRecentMessage(function, ACL_ERROR_INTERNAL_ERROR, error.what());
    return ACL_ERROR_INTERNAL_ERROR;
  }
}

template <typename Body>
int Boundary(const char* function, Arguments arguments, Body&& body, int out_of_memory = ACL_ERROR_BAD_ALLOC) noexcept {
  current_function = function;
  int code = AnyInjected() ? InjectedFailure(function) : ACL_SUCCESS;
  if (code == ACL_SUCCESS) {
    code = RunGuarded(function, body, out_of_memory);
  } else {
    SetRecentMessage(function, code, "made to fail by request");
  }
  if (Tracing()) TraceCall(function, arguments, code);
  return code;
}

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_BOUNDARY_H_
