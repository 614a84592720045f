// SPDX-License-Identifier: Apache-2.0

#include "ep/memcpy_kernel.h"

#include <utility>

#include "ep/tensor_bytes.h"

namespace poolgrad::ep {
namespace {

// Creates the output with the shape of the input, which may have any rank.
ort::OrtValue* OutputLike(const OrtContext& ort, ort::OrtKernelContext* context, const ort::OrtValue* input) {
  ort::ONNXTensorElementDataType type{};
  const std::int64_t* dims = nullptr;
  std::size_t rank = 0;
  Check(ort.api, ort.api.GetTensorElementTypeAndShapeDataReference(input, &type, &dims, &rank));
  ort::OrtValue* output = nullptr;
  Check(ort.api, ort.api.KernelContext_GetOutput(context, 0, dims, rank, &output));
  Require(output != nullptr, "the output is missing");
  return output;
}

}  // namespace

MemcpyKernel::MemcpyKernel(const OrtContext& ort, std::shared_ptr<aclnn::Stream> stream, MemcpyDirection direction)
    : ort::OrtKernelImpl{}, ort_(ort), stream_(std::move(stream)), direction_(direction) {
  ort_version_supported = ort.version;
  Compute = ComputeImpl;
  Release = ReleaseImpl;
}

ort::OrtStatus* MemcpyKernel::ComputeImpl(ort::OrtKernelImpl* self, ort::OrtKernelContext* context) noexcept {
  MemcpyKernel& kernel = *static_cast<MemcpyKernel*>(self);
  return Guard(kernel.ort_.api, [&] { kernel.Copy(context); });
}

void MemcpyKernel::ReleaseImpl(ort::OrtKernelImpl* self) noexcept { delete static_cast<MemcpyKernel*>(self); }

void MemcpyKernel::Copy(ort::OrtKernelContext* context) {
  const ort::OrtValue* input = nullptr;
  Check(ort_.api, ort_.api.KernelContext_GetInput(context, 0, &input));
  Require(input != nullptr, "the input is missing");
  const TensorBytes from = BytesOf(ort_, input);
  const TensorBytes to = BytesOf(ort_, OutputLike(ort_, context, input));
  if (from.size == 0) return;
  void* const given = GivenStream(ort_.api, context);
  if (direction_ == MemcpyDirection::kFromHost) {
    stream_->CopyToDevice(to.data, from.data, from.size, given);
  } else {
    stream_->CopyToHost(to.data, from.data, from.size, given);
  }
}

}  // namespace poolgrad::ep
