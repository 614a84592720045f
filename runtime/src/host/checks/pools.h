// What phase 1 of the pools checks beyond what their gradients do, one check a function. Each answers
// ACLNN_ERR_PARAM_INVALID except where it says otherwise.
#ifndef POOLGRAD_HOST_CHECKS_POOLS_H_
#define POOLGRAD_HOST_CHECKS_POOLS_H_

#include <vector>

#include "host/pool_call.h"
#include "host/status.h"

namespace poolgrad::host {

// The product of the calling thread's device has the function at all.
Status CheckProduct(const PoolCall& call);

// ACLNN_ERR_PARAM_NULLPTR for a null one of self, out, indices, and outputSize.
Status CheckPoolTensorsGiven(const PoolCall& call);
Status CheckOutputSizeGiven(const PoolCall& call);

Status CheckOutDtype(const PoolCall& call);          // self's
Status CheckOutFormat(const PoolCall& call);         // self's, and none of Ascend's private ones
Status CheckPoolFormats(const PoolCall& call);       // the same, and indices' too
Status CheckMaxPool3dFormat(const PoolCall& call);   // Ascend950: NDHWC, NCDHW, NCHW or ND
Status CheckAdaptive3dFormat(const PoolCall& call);  // NCDHW or NCHW; on Ascend950 also ND
Status CheckPoolRanks(const PoolCall& call);

Status CheckAxesNotEmpty(const PoolCall& call);  // no dimension of self but the first is 0

// out and indices have the shape that the windows give; of aclnnMaxPool3dWithArgmax any shape where all have one
// element.
Status CheckPooledShape(const PoolCall& call);

// Indices of INT32 count to 2^31 - 1. CheckPoolPlaneSize: not on Ascend950, and ACLNN_ERR_INNER_NULLPTR, because
// only the operator behind the function finds out.
Status CheckInt32PlaneSize(const PoolCall& call);
Status CheckPoolPlaneSize(const PoolCall& call);

Status CheckOutputSizeLength(const PoolCall& call);  // 2; 3, on Ascend950 also 0 or 1
Status CheckOutputSizeValues(const PoolCall& call);  // > 0

// indices has out's shape; of aclnnAdaptiveMaxPool3d only as many dimensions are compared as outputSize has.
Status CheckIndicesHaveOutShape(const PoolCall& call);
Status CheckIndicesHaveOutShapeAtFirst(const PoolCall& call);

// out, and indices, have the shape that outputSize gives, or any shape where both have one element. Of
// aclnnAdaptiveMaxPool2d ACLNN_ERR_INNER_NULLPTR: the result cannot be copied there.
Status CheckAdaptiveOutShape(const PoolCall& call);
Status CheckAdaptiveIndicesShape(const PoolCall& call);

// ACLNN_ERR_INNER_NULLPTR for DOUBLE of rank 4 in another format than NCHW and NHWC, which the AICPU kernel does not
// take.
Status CheckDoubleFormat(const PoolCall& call);

// Sizes of the spatial axes that outputSize stands for: one value is for all axes, none keeps self's sizes.
std::vector<int64_t> AdaptiveSizes(const PoolCall& call);

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_CHECKS_POOLS_H_
