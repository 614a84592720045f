// SPDX-License-Identifier: Apache-2.0

// The function that libaclnn_host.so exports beyond CANN's C ABI for its callers. Functions for tests are in
// host/control.h.
#ifndef POOLGRAD_ABI_ACL_HOST_H_
#define POOLGRAD_ABI_ACL_HOST_H_

#include <cstddef>

// Calls run(data, index) once for each index below `count`, on any threads, and returns when all calls have returned.
// `run` does not throw.
using aclnnHostParallelFor = void (*)(void* context, void (*run)(void* data, std::size_t index), std::size_t count,
                                      void* data);

#pragma GCC visibility push(default)
extern "C" {

// From now on kernels of the calling thread distribute their work by parallel_for(context, ...), or over the library's
// own threads if it is null. Not traced, and cannot fail.
void aclnnHostSetParallelFor(aclnnHostParallelFor parallel_for, void* context);

}  // extern "C"
#pragma GCC visibility pop

#endif  // POOLGRAD_ABI_ACL_HOST_H_
