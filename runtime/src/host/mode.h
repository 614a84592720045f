// SPDX-License-Identifier: Apache-2.0

// The mode of the library. Lenient: work runs at once, in memory that the caller can access, and handles are not
// checked. Strict: work is queued, device memory is inaccessible, and violations of CANN's rules are recorded. The
// environment variable ACLNN_HOST_STRICT selects the mode; it is read when the library is loaded and in each aclInit.
#ifndef POOLGRAD_HOST_MODE_H_
#define POOLGRAD_HOST_MODE_H_

#include <atomic>

#include "host/status.h"

namespace poolgrad::host {

// Whether ACLNN_HOST_STRICT is 1.
bool StrictIsAskedFor();

inline std::atomic<bool> strict_mode = StrictIsAskedFor();
inline bool IsStrict() { return strict_mode.load(std::memory_order_relaxed); }

// Sets the mode from the variable. ACL_ERROR_INVALID_PARAM unless it is 1, 0, empty or unset.
Status ReadMode();

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_MODE_H_
