// SPDX-License-Identifier: Apache-2.0

// Phase 1 of the operators: creates aclnn's tensors and lists from a call, and an executor from these.
#ifndef POOLGRAD_ACLNN_PHASE_1_H_
#define POOLGRAD_ACLNN_PHASE_1_H_

#include "aclnn/call.h"
#include "aclnn/handles.h"

namespace poolgrad::aclnn {

// The objects that an executor points to: they must outlive it.
struct Arguments {
  std::array<TensorHandle, kMaxOperands> tensors;
  std::array<IntArrayHandle, kMaxLists> lists;
};

struct Executor {
  std::uint64_t workspace_size;  // bytes
  ExecutorHandle handle;
};

// Creates the arguments of a call and runs phase 1. The calling thread must have a current device. Throws
// std::runtime_error.
Executor RunPhase1(const Backend& backend, const Call& call, Arguments& arguments);

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_PHASE_1_H_
