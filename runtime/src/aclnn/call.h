// The two-phase calls of the pools and of their gradients.
#ifndef POOLGRAD_ACLNN_CALL_H_
#define POOLGRAD_ACLNN_CALL_H_

#include <array>
#include <cstdint>

#include "aclnn/backend.h"
#include "aclnn/stream_pool.h"
#include "aclnn/tensor_view.h"

namespace poolgrad::aclnn {

// The function of aclnn, without its direction.
enum class Entry { kMaxPool3d, kMaxPool2d, kAdaptive3d, kAdaptive2d };

// The pooling window along D, H and W, in elements; the 2-D entry takes the last two.
struct Window {
  std::array<std::int64_t, 3> kernel{1, 1, 1};
  std::array<std::int64_t, 3> stride{1, 1, 1};
  std::array<std::int64_t, 3> padding{0, 0, 0};
  std::array<std::int64_t, 3> dilation{1, 1, 1};
  bool ceil_mode = false;
};

// The operands of a backward operator by aclnn's names, in the order of its arguments. The adaptive entries
// do not look at window.
struct BackwardCall {
  Entry entry;
  TensorView grad_output;
  TensorView self;
  TensorView indices;
  TensorView grad_input;
  Window window;
};

// The operands of a pool, likewise. The adaptive entries look at output_size and not at window; the 2-D one takes its
// last two values.
struct ForwardCall {
  Entry entry;
  TensorView self;
  TensorView out;
  TensorView indices;
  Window window;
  std::array<std::int64_t, 3> output_size;
};

// Plans the call, runs it on the stream of `resources` and waits for it. Throws std::runtime_error.
void RunBackward(const Backend& backend, const BackwardCall& call, StreamResources& resources);
void RunForward(const Backend& backend, const ForwardCall& call, StreamResources& resources);

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_CALL_H_
