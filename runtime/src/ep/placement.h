// Where the tensors of a session lie, and how a call on them is made.
#ifndef POOLGRAD_EP_PLACEMENT_H_
#define POOLGRAD_EP_PLACEMENT_H_

#include <memory>
#include <utility>

#include "aclnn/plan_cache.h"
#include "aclnn/stream.h"
#include "aclnn/stream_pool.h"

namespace poolgrad::ep {

// The operations of a session hold it by shared_ptr: onnxruntime need not release kernels before the provider.
// All functions throw std::runtime_error.
class Placement {
 public:
  virtual ~Placement() = default;

  // Calls work on `given`, the stream that onnxruntime gave to the Run, where it did; else it is null.
  virtual void Run(const aclnn::ForwardCall& call, aclnn::PlanCache& plans, aclrtStream given) = 0;

  // An index outside its plane is an error, and nothing is computed; unless `trusts_indices`, where that is known to
  // be impossible.
  virtual void Run(const aclnn::BackwardCall& call, aclnn::PlanCache& plans, bool trusts_indices,
                   aclrtStream given) = 0;

  // Sets every element to 0.
  virtual void Clear(const aclnn::TensorView& view, aclrtStream given) = 0;

  // Whether tensors are in device memory.
  virtual bool is_on_device() const = 0;

  const aclnn::Backend& backend() const { return backend_; }

  // Whether sums must not depend on scheduling.
  bool deterministic() const { return deterministic_; }

 protected:
  Placement(const aclnn::Backend& backend, bool deterministic) : backend_(backend), deterministic_(deterministic) {}

 private:
  const aclnn::Backend& backend_;
  bool deterministic_;
};

// Tensors in host memory. Results are written when a function returns.
class HostPlacement : public Placement {
 public:
  HostPlacement(const aclnn::Backend& backend, bool deterministic)
      : Placement(backend, deterministic), streams_(backend) {}

  void Run(const aclnn::ForwardCall& call, aclnn::PlanCache& plans, aclrtStream given) override;
  void Run(const aclnn::BackwardCall& call, aclnn::PlanCache& plans, bool trusts_indices, aclrtStream given) override;
  void Clear(const aclnn::TensorView& view, aclrtStream given) override;
  bool is_on_device() const override { return false; }

 private:
  aclnn::StreamPool streams_;
};

// Tensors in device memory. Results are written in the order of the stream, the given one or the session's.
class DevicePlacement : public Placement {
 public:
  DevicePlacement(std::shared_ptr<aclnn::Stream> stream, bool deterministic)
      : Placement(stream->backend(), deterministic), stream_(std::move(stream)) {}

  void Run(const aclnn::ForwardCall& call, aclnn::PlanCache& plans, aclrtStream given) override;
  void Run(const aclnn::BackwardCall& call, aclnn::PlanCache& plans, bool trusts_indices, aclrtStream given) override;
  void Clear(const aclnn::TensorView& view, aclrtStream given) override;
  bool is_on_device() const override { return true; }

 private:
  std::shared_ptr<aclnn::Stream> stream_;
};

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_PLACEMENT_H_
