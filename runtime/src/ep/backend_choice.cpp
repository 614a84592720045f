#include "ep/backend_choice.h"

#include <stdexcept>

#include "ep/ort_context.h"

namespace poolgrad::ep {
namespace {

using aclnn::Backend;
using aclnn::BackendKind;

BackendChoice ChooseAutomatically() {
  std::string obstacle;
  try {
    const Backend& cann = Backend::Open(BackendKind::kCann);
    if (cann.product() != aclnn::Product::kUnsupported) return {cann, "an NPU answers"};
    obstacle = cann.soc_name() + " has no max-pool gradient operators";
  } catch (const std::runtime_error& error) {
    obstacle = error.what();
  }
  return {Backend::Open(BackendKind::kHost), "no NPU is used: " + obstacle};
}

}  // namespace

BackendChoice ChooseBackend(const std::string& request) {
  if (request == "auto") return ChooseAutomatically();
  if (request == "cann") return {Backend::Open(BackendKind::kCann), "the session asks for it"};
  if (request == "host") return {Backend::Open(BackendKind::kHost), "the session asks for it"};
  throw InvalidArgument("provider option backend is '" + request + "'; it takes auto, cann or host");
}

}  // namespace poolgrad::ep
