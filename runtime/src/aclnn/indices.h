// SPDX-License-Identifier: Apache-2.0

// The range check of indices, which devices use unchecked.
#ifndef POOLGRAD_ACLNN_INDICES_H_
#define POOLGRAD_ACLNN_INDICES_H_

#include "aclnn/call.h"
#include "aclnn/stream.h"

namespace poolgrad::aclnn {

// Throws std::runtime_error with value and position if the call, whose operands are in host memory, reads an index
// outside of the planes of self.
void CheckIndices(const Call& call);

// The same for operands in device memory, read in the order of `given`, or of the session's stream if it is null.
void CheckIndices(const Call& call, Stream& stream, aclrtStream given);

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_INDICES_H_
