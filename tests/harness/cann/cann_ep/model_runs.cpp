// SPDX-License-Identifier: Apache-2.0

#include "model_runs.h"

#include <cstring>
#include <utility>

namespace stand_in {
namespace {

using Bytes = std::vector<std::byte>;

// One run of a model, with its inputs and outputs on the host.
struct Job {
  std::shared_ptr<const CpuModel> model;
  std::vector<TensorType> input_types;
  std::vector<TensorType> output_types;
  std::vector<Bytes> inputs;
  std::vector<Bytes> outputs;

  static std::vector<void*> Addresses(std::vector<Bytes>& buffers) {
    std::vector<void*> addresses;
    for (Bytes& buffer : buffers) addresses.push_back(buffer.data());
    return addresses;
  }

  void Run() { model->Run(input_types, Addresses(inputs), output_types, Addresses(outputs)); }
};

// One byte more than the tensor has, so that the buffer of an empty tensor has an address.
Bytes BufferOf(const TensorType& type) { return Bytes(ByteSize(type) + 1); }

}  // namespace

void Launch(aclrtStream stream, std::shared_ptr<const CpuModel> model, std::vector<Operand> inputs,
            std::vector<Operand> outputs) {
  const auto job = std::make_shared<Job>();
  job->model = std::move(model);
  for (size_t index = 0; index < inputs.size(); ++index) {
    const auto& [address, type] = inputs[index];
    const size_t size = ByteSize(type);
    job->input_types.push_back(type);
    job->inputs.push_back(BufferOf(type));
    if (size == 0) continue;
    Submit(stream, "input", address, size, false,
           [job, index, size](void* memory) { std::memcpy(job->inputs[index].data(), memory, size); });
  }
  for (const Operand& output : outputs) {
    job->output_types.push_back(output.type);
    job->outputs.push_back(BufferOf(output.type));
  }
  Submit(stream, "", nullptr, 0, false, [job](void*) { job->Run(); });
  for (size_t index = 0; index < outputs.size(); ++index) {
    const auto& [address, type] = outputs[index];
    const size_t size = ByteSize(type);
    if (size == 0) continue;
    Submit(stream, "output", address, size, true,
           [job, index, size](void* memory) { std::memcpy(memory, job->outputs[index].data(), size); });
  }
}

}  // namespace stand_in
