// For a library that implements further functions of CANN's on top of this one, as the tests of a provider that needs
// them do. Its functions are traced, fail by request, and run on streams as those of this library. Not of CANN.
//
// A message is text for the calling thread's aclGetRecentErrMsg. It is copied; null: none.
#ifndef POOLGRAD_HOST_EXTENSION_H_
#define POOLGRAD_HOST_EXTENSION_H_

#include <cstddef>
#include <cstdint>

#include "abi/acl.h"

#pragma GCC visibility push(default)
extern "C" {

// From now on aclnnHostFail knows `function`, which begins with "acl".
void aclnnHostDeclare(const char* function);

// Returns what body(context, &message) returns, run as a function of this library named `function`, on `stream` as the
// trace has it. `body` does not throw.
int32_t aclnnHostCall(const char* function, aclrtStream stream, int32_t (*body)(void* context, const char** message),
                      void* context);

// Queues work of the function that aclnnHostCall runs, as a kernel: it reads or writes `size` bytes of device memory
// from `address` on; no memory where size is 0. run(context, memory, &message) is called when the stream reaches it,
// with the place of these bytes in the process; a code other than 0 breaks the stream. `release` is called once, when
// the work is done or dropped. Neither throws, nor calls this library. If it cannot be queued the failure's code is
// returned, and `release` was called.
int32_t aclnnHostLaunch(aclrtStream stream, const char* name, void* address, size_t size, bool written,
                        int32_t (*run)(void* context, void* memory, const char** message),
                        void (*release)(void* context), void* context);

}  // extern "C"
#pragma GCC visibility pop

#endif  // POOLGRAD_HOST_EXTENSION_H_
