// SPDX-License-Identifier: Apache-2.0

// Checks that a tensor's memory may be accessed. CANN does not check this: on the device a bad access faults when the
// kernel runs. Here phase 2 fails before anything runs.
#ifndef POOLGRAD_HOST_CHECKS_STORAGE_H_
#define POOLGRAD_HOST_CHECKS_STORAGE_H_

#include "host/status.h"
#include "host/tensor.h"

namespace poolgrad::host {

// ACL_ERROR_RT_AICORE_EXCEPTION, as for a device fault, if a non-empty tensor has no data, data that is not aligned to
// its elements, or elements outside of its storage. In strict mode an address that is not a multiple of 32 bytes is a
// violation with this code too: the behaviour of a device is then undefined.
Status CheckReadable(const char* name, const aclTensor& tensor);

// As CheckReadable, and fails for a view whose elements share memory: such an output would depend on the order of the
// writes.
Status CheckWritable(const char* name, const aclTensor& tensor);

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_CHECKS_STORAGE_H_
