// SPDX-License-Identifier: Apache-2.0

// Parallel loops.
#ifndef POOLGRAD_HOST_KERNELS_PARALLEL_H_
#define POOLGRAD_HOST_KERNELS_PARALLEL_H_

#include <cstdint>
#include <functional>

#include "abi/acl_host.h"

namespace poolgrad::host {

using RangeBody = std::function<void(int64_t begin, int64_t end)>;

// Splits the items 0 ... count - 1 into consecutive ranges and calls body(begin, end) once for each, on a number of
// threads that depends on the amount of work; `cost` is about the number of elements that an item accesses. Returns
// when all calls have returned. Rethrows an exception of `body`.
void ForRanges(int64_t count, int64_t cost, const RangeBody& body);

// From now on a call uses at most this number of threads, including its own; 0: one per core.
void LimitThreads(int64_t count);

// From now on calls of this thread distribute their ranges by `parallel_for`; null: over the threads of this library.
void ShareRangesBy(aclnnHostParallelFor parallel_for, void* context);

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_KERNELS_PARALLEL_H_
