// SPDX-License-Identifier: Apache-2.0

// The memory of a session's tensors, and how calls run on it.
#ifndef POOLGRAD_EP_PLACEMENT_H_
#define POOLGRAD_EP_PLACEMENT_H_

#include <memory>
#include <utility>

#include "aclnn/executor_cache.h"
#include "aclnn/stream.h"
#include "aclnn/stream_pool.h"

namespace poolgrad::ep {

// Operations share its ownership, because onnxruntime may release kernels after the provider. All functions throw
// std::runtime_error.
class Placement {
 public:
  virtual ~Placement() = default;

  // Throws, and computes nothing, if the call reads an index outside of its plane. `trusts_indices`: indices are known
  // to be in range and are not checked. `given`: the stream that onnxruntime gave to the Run, or null.
  virtual void Run(const aclnn::Call& call, aclnn::ExecutorCache& executors, bool trusts_indices,
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

  void Run(const aclnn::Call& call, aclnn::ExecutorCache& executors, bool trusts_indices, aclrtStream given) override;
  void Clear(const aclnn::TensorView& view, aclrtStream given) override;
  bool is_on_device() const override { return false; }

 private:
  aclnn::StreamPool streams_;
};

// Tensors in device memory. Results are written in the order of the given stream, or of the session's.
class DevicePlacement : public Placement {
 public:
  DevicePlacement(std::shared_ptr<aclnn::Stream> stream, bool deterministic)
      : Placement(stream->backend(), deterministic), stream_(std::move(stream)) {}

  void Run(const aclnn::Call& call, aclnn::ExecutorCache& executors, bool trusts_indices, aclrtStream given) override;
  void Clear(const aclnn::TensorView& view, aclrtStream given) override;
  bool is_on_device() const override { return true; }

 private:
  std::shared_ptr<aclnn::Stream> stream_;
};

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_PLACEMENT_H_
