// SPDX-License-Identifier: Apache-2.0

#include "aclnn/staging.h"

#include "aclnn/failure.h"
#include "aclnn/indices.h"

namespace poolgrad::aclnn {
namespace {

// Copies the operands of one call to the device and back.
class Staging {
 public:
  Staging(const Backend& backend, StreamResources& resources) : resources_(resources) {
    if (!resources.copier) resources.copier.emplace(backend);
  }

  // Device memory for the view's elements, in buffer number `operand`.
  TensorView OnDevice(const TensorView& view, std::size_t operand) {
    TensorView device = view;
    device.data = resources_.operands[operand].Reserve(ByteCount(view));
    return device;
  }

  TensorView CopiedToDevice(const TensorView& view, std::size_t operand) {
    const TensorView device = OnDevice(view, operand);
    resources_.copier->CopyToDevice(device.data, view.data, ByteCount(view), resources_.stream.get());
    return device;
  }

  void CopyToHost(const TensorView& to, const TensorView& from) {
    resources_.copier->CopyToHost(to.data, from.data, ByteCount(to), resources_.stream.get());
  }

 private:
  StreamResources& resources_;
};

template <typename Call>
void Compute(const Backend& backend, const Call& call, ExecutorCache& executors, StreamResources& resources) {
  aclrtStream stream = resources.stream.get();
  executors.Enqueue(call, resources.workspace, stream);
  WaitForStream(backend.api(), stream);
}

}  // namespace

void RunForwardOnHostMemory(const Backend& backend, const ForwardCall& call, ExecutorCache& executors,
                            StreamResources& resources) {
  if (backend.shares_host_memory()) return Compute(backend, call, executors, resources);
  Staging staging(backend, resources);
  ForwardCall device = call;
  device.self = staging.CopiedToDevice(call.self, 0);
  device.out = staging.OnDevice(call.out, 1);
  device.indices = staging.OnDevice(call.indices, 2);
  Compute(backend, device, executors, resources);
  staging.CopyToHost(call.out, device.out);
  staging.CopyToHost(call.indices, device.indices);
}

void RunBackwardOnHostMemory(const Backend& backend, const BackwardCall& call, ExecutorCache& executors,
                             StreamResources& resources) {
  // The host library checks indices itself.
  const bool is_in_place = backend.shares_host_memory();
  if (!is_in_place || backend.kind() == BackendKind::kCann) CheckIndices(call.indices, PlaneSize(call.self));
  if (is_in_place) return Compute(backend, call, executors, resources);
  Staging staging(backend, resources);
  BackwardCall device = call;
  device.grad_output = staging.CopiedToDevice(call.grad_output, 0);
  device.self = staging.OnDevice(call.self, 1);  // its values are not read, so not copied
  device.indices = staging.CopiedToDevice(call.indices, 2);
  device.grad_input = staging.OnDevice(call.grad_input, 3);
  Compute(backend, device, executors, resources);
  staging.CopyToHost(call.grad_input, device.grad_input);
}

}  // namespace poolgrad::aclnn
