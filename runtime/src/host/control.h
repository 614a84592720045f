// How a test asks this library what was called, what was done wrong, and what is left, and makes calls fail. Not of
// CANN. A process that loads the library by one path, through the execution provider and otherwise, has one state.
//
// Texts are JSON, one object a line; they belong to the library and are good until the calling thread's next call of
// the same function. These functions are not traced, and none of them throws.
#ifndef POOLGRAD_HOST_CONTROL_H_
#define POOLGRAD_HOST_CONTROL_H_

#include <cstdint>

#pragma GCC visibility push(default)
extern "C" {

// From start to stop every call is kept: {"call": function, "thread": number, <CANN's argument names>, "code": code},
// pointers as numbers, what a call hands out if it succeeded. In strict mode also {"run": function, "stream": number,
// "code": code} when queued work runs, and violations. {"note": text} marks where CANN's code differs from its
// documents. ACLNN_HOST_TRACE names a file to which all of it is appended from the library's loading on, and at the
// process's end {"exit": live objects, "violations": number}.
void aclnnHostTraceStart();
void aclnnHostTraceStop();
const char* aclnnHostTraceRead();  // since the start or the last reading

// From now on the `nth` call of the exported function, counted from 1, does nothing and returns `code` (where it
// returns a pointer, null); with nth 0, every call. An executor that phase 2 is given is consumed all the same. 100000
// for a function that does not exist, or code 0. ACLNN_HOST_FAIL=function:nth:code,... does so at the library's
// loading.
int32_t aclnnHostFail(const char* function, uint64_t nth, int32_t code);

// {"violation": rule, "function": function, "message": text} for each rule broken, in strict mode; "" if there is none.
const char* aclnnHostViolations();

// How many objects are not destroyed yet: of kind tensor, int_array, executor, stream, event, device_memory or
// pinned_memory, or null for all. -1 for another kind.
int64_t aclnnHostLiveObjects(const char* kind);

// The vectors that the kernels of pools and gradients are compiled for: "avx512", "avx2", "portable", which every
// processor has, or "scalar", by which windows are looked at element by element; "" for the widest there are. All give
// the same bits. 100000 for what this library or this processor lacks. ACLNN_HOST_VECTORS says so at the library's
// loading.
int32_t aclnnHostSetVectors(const char* name);

// From now on a kernel runs on at most `count` threads, the calling one among them; 0 for one on each core.
// 100000 for a negative number. ACLNN_HOST_THREADS says so at the library's loading.
int32_t aclnnHostSetThreads(int64_t count);

// Forgets trace, violations and failures to come. Objects stay.
void aclnnHostReset();

}  // extern "C"
#pragma GCC visibility pop

#endif  // POOLGRAD_HOST_CONTROL_H_
