// SPDX-License-Identifier: Apache-2.0

// Functions for tests: they report the calls, the violations and the live objects, and make calls fail. Not part of
// CANN. A process that loads the library by one path, through the execution provider and directly, has one state.
//
// Texts are JSON, one object per line. They belong to the library and are valid until the calling thread's next call of
// the same function. These functions are not traced and do not throw.
#ifndef POOLGRAD_HOST_CONTROL_H_
#define POOLGRAD_HOST_CONTROL_H_

#include <cstdint>

#pragma GCC visibility push(default)
extern "C" {

// From start to stop every call is recorded: {"call": function, "thread": number, <CANN's argument names>, "code":
// code}. Pointers and enumerators are numbers. An array is a list of its values, or null; so aclCreateTensor has
// viewDims, stride and storageDims, and aclCreateIntArray value. Arrays and results are recorded if the call succeeded.
// Phase 1 names tensors and lists by the numbers that these two functions returned, and has 0 for an argument that its
// function lacks; outputOut and indicesOut are out and indices. Texts are not recorded. In strict mode also {"run":
// function, "stream": number, "code": code} when queued work runs, and violations. {"note": text} marks a difference
// between CANN's code and its documents. If ACLNN_HOST_TRACE names a file, all lines are appended to it from the
// loading of the library on, and {"exit": live objects, "violations": number} at the end of the process.
void aclnnHostTraceStart();
void aclnnHostTraceStop();
const char* aclnnHostTraceRead();  // the lines since the start or the last call

// From now on the `nth` call of the exported function, counted from 1, does nothing and returns `code` (null, if it
// returns a pointer); with nth 0, every call. Such a call of phase 2 still consumes its executor. Returns 100000 for a
// function that does not exist, or code 0. ACLNN_HOST_FAIL=function:nth:code,... has this effect when the library is
// loaded.
int32_t aclnnHostFail(const char* function, uint64_t nth, int32_t code);

// {"violation": rule, "function": function, "message": text} for each violation in strict mode; "" if there is none.
const char* aclnnHostViolations();

// The number of objects that are not destroyed yet. `kind` is tensor, int_array, executor, stream, event, device_memory
// or pinned_memory, or null for all kinds. -1 for another kind.
int64_t aclnnHostLiveObjects(const char* kind);

// Chooses the vector instructions of the kernels: "avx512", "avx2", "portable" (every processor), "scalar" (windows
// element by element), or "" for the widest available. All give the same bits. Returns 100000 for a name that this
// library or this processor lacks. ACLNN_HOST_VECTORS has this effect when the library is loaded.
int32_t aclnnHostSetVectors(const char* name);

// From now on a kernel runs on at most `count` threads, including the calling one; 0 for one per core. Returns 100000
// for a negative number. ACLNN_HOST_THREADS has this effect when the library is loaded.
int32_t aclnnHostSetThreads(int64_t count);

// Clears the trace, the violations and the requested failures. Objects are not changed.
void aclnnHostReset();

}  // extern "C"
#pragma GCC visibility pop

#endif  // POOLGRAD_HOST_CONTROL_H_
