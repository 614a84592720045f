// What libaclnn_host.so has beyond CANN's C ABI for those who call it. What it has for tests is in host/control.h.
#ifndef POOLGRAD_ABI_ACL_HOST_H_
#define POOLGRAD_ABI_ACL_HOST_H_

#include <cstddef>

// Calls run(data, index) once for each index below `count`, on threads of its own choice, and returns when all are
// done. `run` does not throw.
using aclnnHostParallelFor = void (*)(void* context, void (*run)(void* data, std::size_t index), std::size_t count,
                                      void* data);

#pragma GCC visibility push(default)
extern "C" {

// Kernels that run on the calling thread from now on share their work out by `parallel_for`, which is given `context`;
// null: by the library's own threads. Not traced, and does not fail.
void aclnnHostSetParallelFor(aclnnHostParallelFor parallel_for, void* context);

}  // extern "C"
#pragma GCC visibility pop

#endif  // POOLGRAD_ABI_ACL_HOST_H_
