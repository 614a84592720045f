// SPDX-License-Identifier: Apache-2.0

// The arguments of one phase-1 call of a pool or its gradient.
#ifndef POOLGRAD_HOST_POOL_CALL_H_
#define POOLGRAD_HOST_POOL_CALL_H_

#include <array>
#include <optional>

#include "host/soc.h"
#include "host/status.h"
#include "host/tensor.h"

namespace poolgrad::host {

enum class Api {
  kMaxPool3dWithArgmax,
  kMaxPool2dWithIndices,
  kAdaptiveMaxPool2d,
  kAdaptiveMaxPool3d,
  kMaxPool3dWithArgmaxBackward,
  kMaxPool2dWithIndicesBackward,
  kAdaptiveMaxPool2dBackward,
  kAdaptiveMaxPool3dBackward,
  kAvgPool2dBackward,
  kAvgPool3dBackward,
  kAdaptiveAvgPool2dBackward,
  kAdaptiveAvgPool3dBackward,
};

// The function that is called and its product; `axes` is the number of spatial axes that it pools.
struct Entry {
  Api api;
  int64_t axes;
  std::optional<Product> product = {};  // empty: the calling thread has no current device
  bool deterministic = false;           // sums do not depend on scheduling
};

inline bool IsAdaptive(Api api) {
  return api == Api::kAdaptiveMaxPool2d || api == Api::kAdaptiveMaxPool3d || api == Api::kAdaptiveMaxPool2dBackward ||
         api == Api::kAdaptiveMaxPool3dBackward || api == Api::kAdaptiveAvgPool2dBackward ||
         api == Api::kAdaptiveAvgPool3dBackward;
}

// The arguments by CANN's names (the adaptive pools call out outputOut and indices indicesOut; three gradients of
// average pools call gradInput output or out). They belong to the caller, and any may be null until it is checked.
// Arguments that the function does not have are null.
struct PoolCall {
  Entry entry;
  const aclTensor* grad_output = nullptr;
  const aclTensor* self = nullptr;
  const aclTensor* indices = nullptr;
  const aclIntArray* kernel_size = nullptr;
  const aclIntArray* stride = nullptr;
  const aclIntArray* padding = nullptr;
  const aclIntArray* dilation = nullptr;
  bool ceil_mode = false;
  aclTensor* grad_input = nullptr;
  const aclIntArray* output_size = nullptr;
  const aclTensor* out = nullptr;
  bool count_include_pad = false;
  int64_t divisor_override = 0;
  int8_t cube_math_type = 0;

  std::array<const aclTensor*, 5> tensors() const { return {grad_output, self, indices, grad_input, out}; }
  std::array<const aclIntArray*, 5> lists() const { return {kernel_size, stride, padding, dilation, output_size}; }

  bool on_ascend950() const { return entry.product && RowOf(*entry.product).aclnn == AclnnProduct::kAscend950; }

  // Whether phase 1 of a windowed pool reads self's shape with the channels behind the spatial axes.
  bool channels_last() const {
    if (entry.axes == 2) return self->format == ACL_FORMAT_NHWC;
    return on_ascend950() && self->format == ACL_FORMAT_NDHWC;
  }
};

// One check of phase 1.
using PoolCheck = Status (*)(const PoolCall& call);

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_POOL_CALL_H_
