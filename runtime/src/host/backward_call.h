// The arguments of one phase-1 call of a max-pool gradient.
#ifndef POOLGRAD_HOST_BACKWARD_CALL_H_
#define POOLGRAD_HOST_BACKWARD_CALL_H_

#include <optional>

#include "host/soc.h"
#include "host/tensor.h"

namespace poolgrad::host {

enum class Api {
  kMaxPool3dWithArgmaxBackward,
  kMaxPool2dWithIndicesBackward,
  kAdaptiveMaxPool2dBackward,
  kAdaptiveMaxPool3dBackward,
};

// Which function of which product is called; `axes` is the number of spatial axes it pools.
struct Entry {
  Api api;
  int64_t axes;
  std::optional<Product> product;  // none: the calling thread has no current device
};

// Named as CANN names them; all of the caller, any may be null until checked. The lists are null in the
// adaptive functions, which take none.
struct BackwardCall {
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

  bool on_ascend950() const { return entry.product == Product::kAscend950; }
};

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_BACKWARD_CALL_H_
