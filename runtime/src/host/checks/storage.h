// Whether the memory that a tensor names may be touched. CANN does not check this: on the device such an
// access faults when the kernel runs. Here it is an error before anything runs.
#ifndef POOLGRAD_HOST_CHECKS_STORAGE_H_
#define POOLGRAD_HOST_CHECKS_STORAGE_H_

#include "host/status.h"
#include "host/tensor.h"

namespace poolgrad::host {

// ACL_ERROR_RT_AICORE_EXCEPTION, as for a device fault, if a non-empty tensor has no data, data not aligned
// to its elements, or elements outside of its storage. In strict mode also, as a violation, if its address is not a
// multiple of 32 bytes: what a device does then is undefined.
Status CheckReadable(const char* name, const aclTensor& tensor);

// As CheckReadable, and for a view whose elements share memory: what such an output holds would depend on
// the order of the writes.
Status CheckWritable(const char* name, const aclTensor& tensor);

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_CHECKS_STORAGE_H_
