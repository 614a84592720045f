#include "aclnn/staging.h"

#include "aclnn/failure.h"
#include "aclnn/indices.h"

namespace poolgrad::aclnn {
namespace {

void Copy(const Api& api, void* to, const void* from, std::size_t bytes, aclrtMemcpyKind kind) {
  Check(api, "aclrtMemcpy", api.aclrtMemcpy(to, bytes, from, bytes, kind));
}

TensorView OnDevice(const TensorView& view, DeviceBuffer& buffer) {
  TensorView device = view;
  device.data = buffer.Reserve(ByteCount(view));
  return device;
}

TensorView CopiedToDevice(const Api& api, const TensorView& view, DeviceBuffer& buffer) {
  const TensorView device = OnDevice(view, buffer);
  Copy(api, device.data, view.data, ByteCount(view), ACL_MEMCPY_HOST_TO_DEVICE);
  return device;
}

void CopyToHost(const Api& api, const TensorView& to, const TensorView& from) {
  Copy(api, to.data, from.data, ByteCount(to), ACL_MEMCPY_DEVICE_TO_HOST);
}

template <typename Call>
void Compute(const Backend& backend, const Call& call, PlanCache& plans, StreamResources& resources) {
  aclrtStream stream = resources.stream.get();
  plans.Enqueue(call, resources.workspace, stream);
  Check(backend.api(), "aclrtSynchronizeStream", backend.api().aclrtSynchronizeStream(stream));
}

}  // namespace

void RunForwardOnHostMemory(const Backend& backend, const ForwardCall& call, PlanCache& plans,
                            StreamResources& resources) {
  if (backend.kind() == BackendKind::kHost) return Compute(backend, call, plans, resources);
  const Api& api = backend.api();
  ForwardCall device = call;
  device.self = CopiedToDevice(api, call.self, resources.operands[0]);
  device.out = OnDevice(call.out, resources.operands[1]);
  device.indices = OnDevice(call.indices, resources.operands[2]);
  Compute(backend, device, plans, resources);
  CopyToHost(api, call.out, device.out);
  CopyToHost(api, call.indices, device.indices);
}

void RunBackwardOnHostMemory(const Backend& backend, const BackwardCall& call, PlanCache& plans,
                             StreamResources& resources) {
  if (backend.kind() == BackendKind::kHost) return Compute(backend, call, plans, resources);
  CheckIndices(call.indices, PlaneSize(call.self));
  const Api& api = backend.api();
  BackwardCall device = call;
  device.grad_output = CopiedToDevice(api, call.grad_output, resources.operands[0]);
  device.self = OnDevice(call.self, resources.operands[1]);  // its values are not read, so not copied
  device.indices = CopiedToDevice(api, call.indices, resources.operands[2]);
  device.grad_input = OnDevice(call.grad_input, resources.operands[3]);
  Compute(backend, device, plans, resources);
  CopyToHost(api, call.grad_input, device.grad_input);
}

}  // namespace poolgrad::aclnn
