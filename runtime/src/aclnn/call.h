// SPDX-License-Identifier: Apache-2.0

// A call of a function of aclnn.
#ifndef POOLGRAD_ACLNN_CALL_H_
#define POOLGRAD_ACLNN_CALL_H_

#include "aclnn/function.h"
#include "aclnn/tensor_view.h"

namespace poolgrad::aclnn {

struct Call {
  const Function& function;
  std::array<TensorView, kMaxOperands> operands;  // in the order of function.operands
  Window window;
};

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_CALL_H_
