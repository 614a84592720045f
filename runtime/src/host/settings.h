// SPDX-License-Identifier: Apache-2.0

// The environment variables that are read when the library is loaded: ACLNN_HOST_TRACE, _FAIL, _VECTORS and _THREADS
// (see control.h).
#ifndef POOLGRAD_HOST_SETTINGS_H_
#define POOLGRAD_HOST_SETTINGS_H_

#include "host/status.h"

namespace poolgrad::host {

// ACL_ERROR_INVALID_PARAM if a variable is invalid. aclInit returns this status.
Status EnvironmentStatus();

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_SETTINGS_H_
