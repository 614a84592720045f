// Work on all cores.
#ifndef POOLGRAD_HOST_KERNELS_PARALLEL_H_
#define POOLGRAD_HOST_KERNELS_PARALLEL_H_

#include <cstdint>
#include <functional>

#include "abi/acl_host.h"

namespace poolgrad::host {

using RangeBody = std::function<void(int64_t begin, int64_t end)>;

// Cuts the items 0 ... count - 1 into consecutive ranges and calls body(begin, end) once for each, at the same
// time on as many threads as the work is worth; `cost` is about the number of elements an item touches.
// Returns when all are done. An exception of a body is thrown again here.
void ForRanges(int64_t count, int64_t cost, const RangeBody& body);

// From now on a call works on no more threads than that, its own among them; 0: on all cores.
void LimitThreads(int64_t count);

// From now on calls of this thread give their ranges to `parallel_for`; null: to threads that are kept here.
void ShareRangesBy(aclnnHostParallelFor parallel_for, void* context);

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_KERNELS_PARALLEL_H_
