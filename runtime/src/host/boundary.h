// The one place where a call crosses the C boundary. Every exported function of CANN's runs its body in Boundary: that
// is where exceptions end, where the thread's message of aclGetRecentErrMsg is kept, where a call is traced, and where
// one is made to fail by request.
#ifndef POOLGRAD_HOST_BOUNDARY_H_
#define POOLGRAD_HOST_BOUNDARY_H_

#include <type_traits>

#include "host/injection.h"
#include "host/status.h"
#include "host/trace.h"

namespace poolgrad::host {

// The function that the calling thread is in, or was in last, for messages.
inline thread_local const char* current_function = "";

// Keeps "function: message (code name)" for the calling thread's aclGetRecentErrMsg.
void SetRecentMessage(const char* function, int code, const char* message) noexcept;

// Called where an exception of any type was caught: keeps its message and returns its code, `out_of_memory` for
// std::bad_alloc.
int CodeOfException(const char* function, int out_of_memory) noexcept;

// Runs the body of the C function `function`, which returns a Status or nothing: a failed Status becomes its code and
// the thread's message, and so does an exception.
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
