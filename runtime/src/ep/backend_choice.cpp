// SPDX-License-Identifier: Apache-2.0

#include "ep/backend_choice.h"

#include <stdexcept>

#include "ep/ort_context.h"

namespace poolgrad::ep {
namespace {

using aclnn::Backend;
using aclnn::BackendKind;

// The first device decides the backend, whichever device is requested.
BackendChoice ChooseAutomatically(std::int32_t device) {
  std::string obstacle;
  try {
    obstacle = ProductProblem(Backend::Open(BackendKind::kCann));
  } catch (const std::runtime_error& error) {
    obstacle = error.what();
  }
  if (obstacle.empty()) return {Backend::Open(BackendKind::kCann, device), "an NPU answers"};
  return {Backend::Open(BackendKind::kHost, device), "no NPU is used: " + obstacle};
}

}  // namespace

std::string ProductProblem(const Backend& backend) {
  if (backend.product() != aclnn::Product::kUnsupported) return "";
  return backend.soc_name() + " has no operators for gradients of pools";
}

BackendChoice ChooseBackend(const std::string& request, std::int32_t device) {
  if (request == "auto") return ChooseAutomatically(device);
  if (request == "cann") return {Backend::Open(BackendKind::kCann, device), "the session asks for it"};
  if (request == "host") return {Backend::Open(BackendKind::kHost, device), "the session asks for it"};
  throw InvalidArgument("provider option backend is '" + request + "'; it takes auto, cann or host");
}

}  // namespace poolgrad::ep
