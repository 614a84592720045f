// SPDX-License-Identifier: Apache-2.0

// The operators that CANN's functions for gradients of average pools run, and how these compute.
#ifndef POOLGRAD_HOST_OPERATORS_AVERAGE_ROUTE_H_
#define POOLGRAD_HOST_OPERATORS_AVERAGE_ROUTE_H_

#include <vector>

#include "host/kernels/average_gradient.h"
#include "host/pool_call.h"
#include "host/window.h"

namespace poolgrad::host {

enum class AverageOperator {
  kDiv,            // one window over all of a plane, of 10 elements and more on both axes: gradOutput / elements
  kConv2d,         // Conv2DBackpropInput with a weight of 1 / divisor: Atlas A2 and A3
  kAvgPoolV2Grad,  // Ascend 950
  kAvgPool3dGrad,
  kMul,       // one adaptive window: gradOutput * (1 / elements)
  kAdaptive,  // that over three axes, on Ascend 950 that over two for two axes
};

// The operator for a call whose tensors and lists passed the checks before.
AverageOperator OperatorOf(const PoolCall& call);

// How the operator computes, as far as this library imitates it.
struct AverageConduct {
  MeanArithmetic arithmetic;
  // No order of Conv2DBackpropInput is known. In strict mode, sums for which no order is promised run from the last
  // window to the first: overlapping windows, on Atlas A2 and A3 unless the call is deterministic.
  SumOrder order = SumOrder::kRowMajor;
  // Strict mode: the float copy of the result in which Atlas A2 and A3 sum overlapping windows of 16-bit floats.
  uint64_t workspace_size = 0;  // bytes
  // The code for shapes that do not match, in phase 1; ACL_SUCCESS if phase 1 does not look.
  int geometry_code = ACL_SUCCESS;
};

AverageConduct ConductOfAverage(const PoolCall& call, const std::vector<WindowAxis>& windows);

// Whether aclnnAvgPool2dBackward passes all planes to the operator as those of one batch, and views its result in the
// shape of gradInput.
inline bool IsOneBatch(const PoolCall& call, AverageOperator kind) {
  return call.entry.api == Api::kAvgPool2dBackward && kind == AverageOperator::kAvgPool3dGrad;
}

// The code if the operator's result cannot be copied to the caller's because that one has another format; else
// ACL_SUCCESS.
int CodeOfOtherFormat(const PoolCall& call);

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_OPERATORS_AVERAGE_ROUTE_H_
