// SPDX-License-Identifier: Apache-2.0

// The range check of indices, which devices use unchecked.
#ifndef POOLGRAD_ACLNN_INDICES_H_
#define POOLGRAD_ACLNN_INDICES_H_

#include "aclnn/stream.h"
#include "aclnn/tensor_view.h"

namespace poolgrad::aclnn {

// Throws std::runtime_error with value and position if an index of `indices`, an int32 or int64 tensor in
// host memory, lies outside [0, plane).
void CheckIndices(const TensorView& indices, std::int64_t plane);

// The same for a tensor in device memory, read in the order of `given`, or of the session's stream if it is null.
void CheckIndices(const TensorView& indices, std::int64_t plane, Stream& stream, aclrtStream given);

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_INDICES_H_
