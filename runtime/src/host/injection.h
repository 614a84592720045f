// SPDX-License-Identifier: Apache-2.0

// Makes calls fail by request, so that tests see how a caller handles failures.
#ifndef POOLGRAD_HOST_INJECTION_H_
#define POOLGRAD_HOST_INJECTION_H_

#include <atomic>
#include <cstdint>
#include <string_view>

#include "host/status.h"

namespace poolgrad::host {

// Makes the functions below accept a function of this name, which another library implements with this one.
void DeclareFunction(const char* function);

// From now on the `nth` call of a function, exported or declared, counted from 1, fails with `code`; with nth 0, every
// call. ACL_ERROR_INVALID_PARAM if there is no such function or the code is ACL_SUCCESS.
Status InjectFailure(const std::string& function, uint64_t nth, int code);

// The same for each entry of "function:nth:code,function:nth:code". ACL_ERROR_INVALID_PARAM for another text.
Status InjectFailures(std::string_view list);

void ForgetFailures();

// The code with which this call of the function must fail, or ACL_SUCCESS. Counts the call.
int InjectedFailure(const char* function) noexcept;

inline std::atomic<bool> any_injected = false;
inline bool AnyInjected() { return any_injected.load(std::memory_order_relaxed); }

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_INJECTION_H_
