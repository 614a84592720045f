// SPDX-License-Identifier: Apache-2.0

// The C boundary. Every exported function of CANN's ABI runs its body in Boundary, which catches exceptions, stores the
// thread's message for aclGetRecentErrMsg, traces the call, and makes it fail by request.
#ifndef POOLGRAD_HOST_BOUNDARY_H_
#define POOLGRAD_HOST_BOUNDARY_H_

#include <type_traits>

#include "host/injection.h"
#include "host/status.h"
#include "host/trace.h"

namespace poolgrad::host {

// The function that the calling thread executes, or executed last, for messages.
inline thread_local const char* current_function = "";

// Stores "function: message (code name)" for the calling thread's aclGetRecentErrMsg.
void SetRecentMessage(const char* function, int code, const char* message) noexcept;

// Stores the message of the exception that is being handled, and returns its code: `out_of_memory` for std::bad_alloc.
int CodeOfException(const char* function, int out_of_memory) noexcept;

// Runs `body` of the C function `function` and returns its code. `body` returns a Status or nothing. The message of a
// failed Status or of an exception becomes the thread's message.
template <typename Body>
int RunGuarded(const char* function, Body&& body, int out_of_memory = ACL_ERROR_BAD_ALLOC) noexcept {
  try {
    if constexpr (std::is_void_v<decltype(body())>) {
      body();
      return ACL_SUCCESS;
    } else {
      const Status status = body();
      if (!status.message.empty()) SetRecentMessage(function, status.code, status.message.c_str());
      return status.code;
    }
  } catch (...) {
    return CodeOfException(function, out_of_memory);
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
