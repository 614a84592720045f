// How exacting the library is. Lenient: work runs at once, in memory that the caller can touch, and handles are
// trusted. Strict: a caller meets everything that a device and CANN's rules could do to it. The environment variable
// ACLNN_HOST_STRICT decides, when the library is loaded and anew in each aclInit.
#ifndef POOLGRAD_HOST_MODE_H_
#define POOLGRAD_HOST_MODE_H_

#include <atomic>

#include "host/status.h"

namespace poolgrad::host {

// Whether ACLNN_HOST_STRICT asks for it: 1; unset, empty and 0 do not.
bool StrictIsAskedFor();

inline std::atomic<bool> strict_mode = StrictIsAskedFor();
inline bool IsStrict() { return strict_mode.load(std::memory_order_relaxed); }

// ACL_ERROR_INVALID_PARAM if the variable says something else.
Status ReadMode();

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_MODE_H_
