// Phase 1 of the operators: aclnn's tensors and lists made from a call, and the executor from these.
#ifndef POOLGRAD_ACLNN_PHASE_1_H_
#define POOLGRAD_ACLNN_PHASE_1_H_

#include <array>
#include <cstdint>

#include "aclnn/call.h"
#include "aclnn/handles.h"

namespace poolgrad::aclnn {

// What an executor keeps pointers to: it must not outlive this.
struct Arguments {
  std::array<TensorHandle, kMaxOperands> tensors;
  std::array<IntArrayHandle, 4> lists;
};

struct Planned {
  std::uint64_t workspace_size;  // bytes
  ExecutorHandle executor;
};

// Makes the arguments of a ForwardCall or BackwardCall and runs phase 1. The calling thread has a current device.
// Throws std::runtime_error.
template <typename Call>
Planned RunPhase1(const Api& api, const Call& call, Arguments& arguments);

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_PHASE_1_H_
