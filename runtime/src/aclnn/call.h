// SPDX-License-Identifier: Apache-2.0

// The arguments of the calls of pools and their gradients.
#ifndef POOLGRAD_ACLNN_CALL_H_
#define POOLGRAD_ACLNN_CALL_H_

#include <array>
#include <cstdint>

#include "aclnn/api.h"
#include "aclnn/tensor_view.h"

namespace poolgrad::aclnn {

using Axes = std::array<std::int64_t, 3>;  // values along D, H and W; a 2-D entry takes the last two

// The pooling window, in elements.
struct Window {
  Axes kernel{1, 1, 1};
  Axes stride{1, 1, 1};
  Axes padding{0, 0, 0};
  Axes dilation{1, 1, 1};
  bool ceil_mode = false;
};

// The operands of a gradient by aclnn's names, in the order of its arguments. The adaptive entries ignore `window`.
struct BackwardCall {
  Entry entry;
  TensorView grad_output;
  TensorView self;
  TensorView indices;
  TensorView grad_input;
  Window window;
};

// The operands of a pool, likewise. The adaptive entries ignore `window`, the others `output_size`.
struct ForwardCall {
  Entry entry;
  TensorView self;
  TensorView out;
  TensorView indices;
  Window window;
  Axes output_size;
};

inline const Function& FunctionOf(const Api& api, const ForwardCall& call) { return ForwardFunction(api, call.entry); }

inline const Function& FunctionOf(const Api& api, const BackwardCall& call) {
  return BackwardFunction(api, call.entry);
}

constexpr std::size_t kMaxOperands = 4;

// The operands of a call in the order of the function's arguments; the entries from `count` on are unspecified.
struct Operands {
  std::size_t count;
  std::array<TensorView, kMaxOperands> views;
};

inline Operands OperandsOf(const ForwardCall& call) { return {3, {call.self, call.out, call.indices}}; }

inline Operands OperandsOf(const BackwardCall& call) {
  return {4, {call.grad_output, call.self, call.indices, call.grad_input}};
}

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_CALL_H_
