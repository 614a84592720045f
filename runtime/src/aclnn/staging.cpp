// SPDX-License-Identifier: Apache-2.0

#include "aclnn/staging.h"

#include "aclnn/failure.h"
#include "aclnn/indices.h"

namespace poolgrad::aclnn {
namespace {

void Compute(const Backend& backend, const Call& call, ExecutorCache& executors, StreamResources& resources) {
  aclrtStream stream = resources.stream.get();
  executors.Enqueue(call, resources.workspace, stream);
  WaitForStream(backend.api(), stream);
}

// The operand whose memory this operand uses: itself, but the result for a tensor that is read for its sizes alone and
// is the memory of the result. Such a tensor has the result's size.
std::size_t HolderOf(const Call& call, std::size_t operand) {
  const Operand* operands = call.function.operands.begin();
  for (std::size_t result = 0; result < call.function.operands.size(); ++result) {
    const bool is_same = call.operands[operand].data == call.operands[result].data;
    if (is_same && operands[operand].use == Use::kSizes && operands[result].use == Use::kWritten) return result;
  }
  return operand;
}

}  // namespace

void RunOnHostMemory(const Backend& backend, const Call& call, ExecutorCache& executors, StreamResources& resources) {
  // The host library checks indices itself.
  const bool is_in_place = backend.shares_host_memory();
  if (!is_in_place || backend.kind() == BackendKind::kCann) CheckIndices(call);
  if (is_in_place) return Compute(backend, call, executors, resources);
  if (!resources.copier) resources.copier.emplace(backend);
  aclrtStream stream = resources.stream.get();
  const std::initializer_list<Operand> operands = call.function.operands;
  Call device = call;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const TensorView& host = call.operands[i];
    void* const data = device.operands[i].data = resources.operands[HolderOf(call, i)].Reserve(ByteCount(host));
    if (operands.begin()[i].use == Use::kRead) {
      resources.copier->CopyToDevice(data, host.data, ByteCount(host), stream);
    }
  }
  Compute(backend, device, executors, resources);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands.begin()[i].use != Use::kWritten) continue;
    const TensorView& host = call.operands[i];
    resources.copier->CopyToHost(host.data, device.operands[i].data, ByteCount(host), stream);
  }
}

}  // namespace poolgrad::aclnn
