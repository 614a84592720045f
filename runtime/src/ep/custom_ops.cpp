// SPDX-License-Identifier: Apache-2.0

#include "ep/custom_ops.h"

#include <memory>
#include <mutex>
#include <vector>

#include "ep/backend_choice.h"
#include "ep/custom_op.h"
#include "ep/dialect_table.h"
#include "ep/options.h"

namespace poolgrad::ep {
namespace {

// onnxruntime infers the types of outputs from those of the inputs alone, so a pool has one type of argmax: the
// dialect's default. An operator without argmax is offered once.
bool IsOffered(const DialectOp& op, ort::ONNXTensorElementDataType index) { return ReadsArgmax(op) || !IsInt64(index); }

// The operators on one backend. Their tensors are in host memory, because the CPU provider runs them. onnxruntime
// merges the operators of one name into one schema.
class CustomOpDomain {
 public:
  CustomOpDomain(const OrtContext& ort, const aclnn::Backend& backend, bool deterministic)
      : ort_(ort),
        placement_(std::make_shared<HostPlacement>(backend, deterministic)),
        domain_(nullptr, ort.api.ReleaseCustomOpDomain) {
    ort::OrtCustomOpDomain* created = nullptr;
    Check(ort.api, ort.api.CreateCustomOpDomain(kDialectDomain, &created));
    domain_.reset(created);
    for (const DialectOp& op : kDialectOps) {
      for (const ElementType& value : kValueTypes) {
        for (const ElementType& index : kIndexTypes) {
          if (IsOffered(op, index.onnx)) Add(std::make_unique<CustomOp>(ort, placement_, op, value.onnx, index.onnx));
        }
      }
    }
  }

  bool IsFor(const OrtContext& ort, const aclnn::Backend& backend, bool deterministic) const {
    return &ort.api == &ort_.api && &backend == &placement_->backend() && deterministic == placement_->deterministic();
  }

  ort::OrtCustomOpDomain* get() const { return domain_.get(); }

 private:
  void Add(std::unique_ptr<CustomOp> op) {
    Check(ort_.api, ort_.api.CustomOpDomain_Add(domain_.get(), op.get()));
    ops_.push_back(std::move(op));
  }

  OrtContext ort_;
  std::shared_ptr<Placement> placement_;
  std::vector<std::unique_ptr<CustomOp>> ops_;
  OrtHandle<ort::OrtCustomOpDomain> domain_;
};

// One domain for each backend of the process, and one more for deterministic sums on it. Domains are never freed:
// session options and sessions point to them, and onnxruntime does not report when the last of these is released.
const CustomOpDomain& DomainOn(const OrtContext& ort, const aclnn::Backend& backend, bool deterministic) {
  static std::mutex mutex;
  static auto& domains = *new std::vector<std::unique_ptr<CustomOpDomain>>;
  const std::lock_guard<std::mutex> lock(mutex);
  for (const std::unique_ptr<CustomOpDomain>& domain : domains) {
    if (domain->IsFor(ort, backend, deterministic)) return *domain;
  }
  domains.push_back(std::make_unique<CustomOpDomain>(ort, backend, deterministic));
  return *domains.back();
}

}  // namespace

void AddCustomOps(const OrtContext& ort, ort::OrtSessionOptions* session_options) {
  const Options options = ReadOptions(ort, session_options);
  Require(options.memory != Memory::kDevice, "custom operators work on tensors in host memory; leave memory at auto");
  const BackendChoice choice = ChooseBackend(options.backend, options.device_id.value_or(aclnn::kFirstDevice));
  const CustomOpDomain& domain = DomainOn(ort, choice.backend, options.deterministic);
  Check(ort.api, ort.api.AddCustomOpDomain(session_options, domain.get()));
}

}  // namespace poolgrad::ep
