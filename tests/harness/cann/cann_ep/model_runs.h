// SPDX-License-Identifier: Apache-2.0

// Runs of a model on a stream of the host library.
#ifndef TESTS_CANN_EP_MODEL_RUNS_H_
#define TESTS_CANN_EP_MODEL_RUNS_H_

#include <memory>
#include <vector>

#include "calls.h"
#include "cpu_model.h"

namespace stand_in {

struct Operand {
  void* address;
  TensorType type;
};

// Queues a run of the model on the stream, which reads the inputs and writes the outputs. Throws std::runtime_error if
// it cannot be queued.
void Launch(aclrtStream stream, std::shared_ptr<const CpuModel> model, std::vector<Operand> inputs,
            std::vector<Operand> outputs);

}  // namespace stand_in

#endif  // TESTS_CANN_EP_MODEL_RUNS_H_
