// SPDX-License-Identifier: Apache-2.0

// Functions for another library that implements further functions of CANN with this one, as the tests of onnxruntime's
// CANN provider do. Its functions are traced, fail by request, and run on streams like those of this library. Not part
// of CANN.
//
// A message is a text for the calling thread's aclGetRecentErrMsg, or null. It is copied.
#ifndef POOLGRAD_HOST_EXTENSION_H_
#define POOLGRAD_HOST_EXTENSION_H_

#include <cstddef>
#include <cstdint>

#include "abi/acl.h"

#pragma GCC visibility push(default)
extern "C" {

// From now on aclnnHostFail accepts `function`, whose name begins with "acl".
void aclnnHostDeclare(const char* function);

// Runs body(context, &message) as a function of this library named `function`, and returns its code. `stream` is the
// stream in the trace. `body` must not throw.
int32_t aclnnHostCall(const char* function, aclrtStream stream, int32_t (*body)(void* context, const char** message),
                      void* context);

// Queues work of the function that aclnnHostCall runs, as a kernel that reads or writes `size` bytes of device memory
// from `address` on, or no memory if size is 0. The stream calls run(context, memory, &message) with the address of
// these bytes in the process; a code other than 0 puts the stream in error. `release` is called once, when the work is
// done or dropped. Neither may throw or call this library. If the work cannot be queued, `release` is called and the
// code of the failure returned.
int32_t aclnnHostLaunch(aclrtStream stream, const char* name, void* address, size_t size, bool written,
                        int32_t (*run)(void* context, void* memory, const char** message),
                        void (*release)(void* context), void* context);

}  // extern "C"
#pragma GCC visibility pop

#endif  // POOLGRAD_HOST_EXTENSION_H_
