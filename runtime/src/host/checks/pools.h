// SPDX-License-Identifier: Apache-2.0

// The checks of phase 1 that only the pools make, one per function. A failure has the code ACLNN_ERR_PARAM_INVALID
// unless stated otherwise.
#ifndef POOLGRAD_HOST_CHECKS_POOLS_H_
#define POOLGRAD_HOST_CHECKS_POOLS_H_

#include <vector>

#include "host/pool_call.h"
#include "host/status.h"

namespace poolgrad::host {

// The product of the calling thread's device has the function.
Status CheckProduct(const PoolCall& call);

// ACLNN_ERR_PARAM_NULLPTR if self, out, indices, or outputSize is null.
Status CheckPoolTensorsGiven(const PoolCall& call);
Status CheckOutputSizeGiven(const PoolCall& call);

Status CheckOutDtype(const PoolCall& call);          // self's
Status CheckOutFormat(const PoolCall& call);         // self's, and not private to Ascend
Status CheckPoolFormats(const PoolCall& call);       // the same, and indices' too
Status CheckMaxPool3dFormat(const PoolCall& call);   // Ascend950: NDHWC, NCDHW, NCHW or ND
Status CheckMaxPool3dLayout(const PoolCall& call);   // the other products: not NDHWC
Status CheckAdaptive3dFormat(const PoolCall& call);  // NCDHW or NCHW; on Ascend950 also ND
Status CheckPoolRanks(const PoolCall& call);

Status CheckAxesNotEmpty(const PoolCall& call);  // no dimension of self but the first is 0

// out and indices have the shape that the windows give. aclnnMaxPool3dWithArgmax also accepts any shape of one element
// if the windows give one element.
Status CheckPooledShape(const PoolCall& call);

// A plane of self has at most 2^31 - 1 elements. CheckInt32PlaneSize: if indices are INT32. CheckPoolPlaneSize: except
// on Ascend950; ACLNN_ERR_INNER_NULLPTR, because the operator behind the function makes this check.
Status CheckInt32PlaneSize(const PoolCall& call);
Status CheckPoolPlaneSize(const PoolCall& call);

Status CheckOutputSizeLength(const PoolCall& call);  // 2; 3, on Ascend950 also 0 or 1
Status CheckOutputSizeValues(const PoolCall& call);  // > 0

// indices has out's shape. aclnnAdaptiveMaxPool3d compares only the first dimensions, as many as outputSize has values.
Status CheckIndicesHaveOutShape(const PoolCall& call);
Status CheckIndicesHaveOutShapeAtFirst(const PoolCall& call);

// out or indices has the shape that outputSize gives, or any shape if both shapes have one element.
// aclnnAdaptiveMaxPool2d: ACLNN_ERR_INNER_NULLPTR, because the result cannot be copied to the tensor.
Status CheckAdaptiveOutShape(const PoolCall& call);
Status CheckAdaptiveIndicesShape(const PoolCall& call);

// ACLNN_ERR_INNER_NULLPTR for NHWC, which CANN transposes and this library does not, and for DOUBLE of rank 4 in a
// format other than NCHW, which the AICPU kernel refuses.
Status CheckAdaptive2dFormat(const PoolCall& call);

// The output sizes of the spatial axes: outputSize has one value per axis, one for all axes, or none for self's sizes.
std::vector<int64_t> AdaptiveSizes(const PoolCall& call);

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_CHECKS_POOLS_H_
