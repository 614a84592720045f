// SPDX-License-Identifier: Apache-2.0

#include "ep/scalars_kernel.h"

#include <cstring>
#include <utility>

#include "ep/tensor_bytes.h"

namespace poolgrad::ep {

ScalarsKernel::ScalarsKernel(const OrtContext& ort, std::shared_ptr<aclnn::Stream> stream)
    : ort::OrtKernelImpl{}, ort_(ort), stream_(std::move(stream)) {
  ort_version_supported = ort.version;
  Compute = ComputeImpl;
  Release = ReleaseImpl;
}

ort::OrtStatus* ScalarsKernel::ComputeImpl(ort::OrtKernelImpl* self, ort::OrtKernelContext* context) noexcept {
  ScalarsKernel& kernel = *static_cast<ScalarsKernel*>(self);
  return Guard(kernel.ort_.api, [&] {
    std::size_t count = 0;
    Check(kernel.ort_.api, kernel.ort_.api.KernelContext_GetInputCount(context, &count));
    for (std::size_t position = 0; position < count; ++position) kernel.Unsqueeze(context, position);
  });
}

void ScalarsKernel::ReleaseImpl(ort::OrtKernelImpl* self) noexcept { delete static_cast<ScalarsKernel*>(self); }

void ScalarsKernel::Unsqueeze(ort::OrtKernelContext* context, std::size_t position) {
  const ort::OrtValue* input = nullptr;
  Check(ort_.api, ort_.api.KernelContext_GetInput(context, position, &input));
  Require(input != nullptr, "an input is missing");
  constexpr std::int64_t kShape[] = {1};
  ort::OrtValue* output = nullptr;
  Check(ort_.api, ort_.api.KernelContext_GetOutput(context, position, kShape, 1, &output));
  if (output == nullptr) return;
  const TensorBytes from = BytesOf(ort_, input);
  const TensorBytes to = BytesOf(ort_, output);
  Require(from.size == to.size, "an input has more than one element");
  if (from.data == to.data) return;
  if (stream_ == nullptr) {
    std::memcpy(to.data, from.data, from.size);
  } else {
    stream_->CopyOnDevice(to.data, from.data, from.size, GivenStream(ort_.api, context));
  }
}

}  // namespace poolgrad::ep
