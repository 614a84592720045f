// SPDX-License-Identifier: Apache-2.0

// aclnnMaxPool2dWithMask and its gradient, which torch_npu calls on Atlas A2 and A3. There CANN runs the kernel of
// aclnnMaxPool3dWithArgmax on planes of depth 1, and the mask holds its int32 indices; so do these functions. A window
// of one element has a mask of bits and a kernel of its own, and is refused.

#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "calls.h"
#include "cann.h"
#include "host/tensor.h"

namespace {

using Ints = std::vector<int64_t>;

struct DestroyTensor {
  void operator()(aclTensor* tensor) const { aclDestroyTensor(tensor); }
};
struct DestroyInts {
  void operator()(aclIntArray* ints) const { aclDestroyIntArray(ints); }
};

// The arguments of a call in three dimensions, which have to live until phase 2.
class Arguments {
 public:
  // Planes as (N, C, 1, H, W).
  aclTensor* Volumes(const aclTensor& planes) { return Make(planes, VolumeDims(planes), planes.strides, planes.dtype); }

  // The indices that a mask holds, one for each element of `pooled`.
  aclTensor* Indices(const aclTensor& mask, const aclTensor& pooled) {
    return Make(mask, VolumeDims(pooled), {}, ACL_INT32);
  }

  // A window's list with the entry for the depth before those of height and width, which one entry may stand for.
  aclIntArray* Window(const aclIntArray& window, int64_t depth) {
    Ints values = window.values;
    if (values.size() == 1) values.push_back(values[0]);
    if (!values.empty()) values.insert(values.begin(), depth);
    return Keep(ints_, aclCreateIntArray(values.data(), values.size()));
  }

 private:
  static Ints VolumeDims(const aclTensor& planes) {
    Ints dims = planes.dims;
    if (dims.size() == 3) dims.insert(dims.begin(), 1);
    dims.insert(dims.begin() + 2, 1);
    return dims;
  }

  aclTensor* Make(const aclTensor& of, const Ints& dims, Ints strides, aclDataType dtype) {
    if (strides.empty()) {
      strides.assign(dims.size(), 1);
      for (size_t axis = dims.size() - 1; axis > 0; --axis) strides[axis - 1] = strides[axis] * dims[axis];
    } else {
      if (strides.size() == 3) strides.insert(strides.begin(), strides[0] * of.dims[0]);
      strides.insert(strides.begin() + 2, strides[2] * dims[3]);
    }
    return Keep(tensors_, aclCreateTensor(dims.data(), dims.size(), dtype, strides.data(), of.offset, ACL_FORMAT_NCDHW,
                                          of.storage_dims.data(), of.storage_dims.size(), of.data));
  }

  template <typename Owners, typename T>
  static T* Keep(Owners& owners, T* made) {
    if (made == nullptr) throw std::runtime_error(aclGetRecentErrMsg());
    owners.emplace_back(made);
    return made;
  }

  std::vector<std::unique_ptr<aclTensor, DestroyTensor>> tensors_;
  std::vector<std::unique_ptr<aclIntArray, DestroyInts>> ints_;
};

// The arguments of each executor that phase 2 has not run yet.
class PendingCalls {
 public:
  void Add(const aclOpExecutor* executor, Arguments arguments) {
    const std::lock_guard lock(mutex_);
    arguments_.emplace(executor, std::move(arguments));
  }

  // Destroys the arguments.
  void Remove(const aclOpExecutor* executor) {
    const std::lock_guard lock(mutex_);
    arguments_.erase(executor);
  }

 private:
  std::mutex mutex_;
  std::map<const aclOpExecutor*, Arguments> arguments_;
};

PendingCalls& Pending() {
  static auto* const calls = new PendingCalls;
  return *calls;
}

void RefuseWindowsOfOneElement(const aclIntArray& kernel_size) {
  for (const int64_t size : kernel_size.values) {
    if (size != 1) return;
  }
  throw std::invalid_argument("the stand-in for CANN has no masks of windows of one element");
}

// Phase 1 of a function that takes a window's lists, with the tensors that stand before and after these.
template <typename Phase1, typename GetTensors>
aclnnStatus Prepare(const char* function, Phase1&& phase_1, GetTensors&& get_tensors, const aclIntArray* kernel_size,
                    const aclIntArray* stride, const aclIntArray* padding, const aclIntArray* dilation,
                    aclOpExecutor** executor) {
  return stand_in::Call(function, nullptr, [&]() -> int32_t {
    RefuseWindowsOfOneElement(*kernel_size);
    Arguments arguments;
    const auto tensors = get_tensors(arguments);
    const aclnnStatus code = phase_1(tensors, arguments.Window(*kernel_size, 1), arguments.Window(*stride, 1),
                                     arguments.Window(*padding, 0), arguments.Window(*dilation, 1));
    if (code == ACL_SUCCESS) Pending().Add(*executor, std::move(arguments));
    return code;
  });
}

template <typename Phase2>
aclnnStatus Execute(const char* function, Phase2&& phase_2, void* workspace, uint64_t workspace_size,
                    aclOpExecutor* executor, aclrtStream stream) {
  return stand_in::Call(function, stream, [&]() -> int32_t {
    const aclnnStatus code = phase_2(workspace, workspace_size, executor, stream);
    Pending().Remove(executor);
    return code;
  });
}

}  // namespace

STAND_IN_FUNCTION(aclnnMaxPool2dWithMaskGetWorkspaceSize)
aclnnStatus aclnnMaxPool2dWithMaskGetWorkspaceSize(const aclTensor* self, const aclIntArray* kernel_size,
                                                   const aclIntArray* stride, const aclIntArray* padding,
                                                   const aclIntArray* dilation, bool ceil_mode, aclTensor* out,
                                                   aclTensor* indices, uint64_t* workspace_size,
                                                   aclOpExecutor** executor) {
  struct Tensors {
    aclTensor *self, *out, *indices;
  };
  const auto tensors = [&](Arguments& of) {
    return Tensors{of.Volumes(*self), of.Volumes(*out), of.Indices(*indices, *out)};
  };
  const auto phase_1 = [&](const Tensors& in, auto*... windows) {
    return aclnnMaxPool3dWithArgmaxGetWorkspaceSize(in.self, windows..., ceil_mode, in.out, in.indices, workspace_size,
                                                    executor);
  };
  return Prepare(__func__, phase_1, tensors, kernel_size, stride, padding, dilation, executor);
}

STAND_IN_FUNCTION(aclnnMaxPool2dWithMask)
aclnnStatus aclnnMaxPool2dWithMask(void* workspace, uint64_t workspace_size, aclOpExecutor* executor,
                                   aclrtStream stream) {
  return Execute(__func__, aclnnMaxPool3dWithArgmax, workspace, workspace_size, executor, stream);
}

STAND_IN_FUNCTION(aclnnMaxPool2dWithMaskBackwardGetWorkspaceSize)
aclnnStatus aclnnMaxPool2dWithMaskBackwardGetWorkspaceSize(const aclTensor* grad_output, const aclTensor* self,
                                                           const aclTensor* indices, const aclIntArray* kernel_size,
                                                           const aclIntArray* stride, const aclIntArray* padding,
                                                           const aclIntArray* dilation, bool ceil_mode,
                                                           aclTensor* grad_input, uint64_t* workspace_size,
                                                           aclOpExecutor** executor) {
  struct Tensors {
    aclTensor *grad_output, *self, *indices, *grad_input;
  };
  const auto tensors = [&](Arguments& of) {
    return Tensors{of.Volumes(*grad_output), of.Volumes(*self), of.Indices(*indices, *grad_output),
                   of.Volumes(*grad_input)};
  };
  const auto phase_1 = [&](const Tensors& in, auto*... windows) {
    return aclnnMaxPool3dWithArgmaxBackwardGetWorkspaceSize(in.grad_output, in.self, in.indices, windows..., ceil_mode,
                                                            in.grad_input, workspace_size, executor);
  };
  return Prepare(__func__, phase_1, tensors, kernel_size, stride, padding, dilation, executor);
}

STAND_IN_FUNCTION(aclnnMaxPool2dWithMaskBackward)
aclnnStatus aclnnMaxPool2dWithMaskBackward(void* workspace, uint64_t workspace_size, aclOpExecutor* executor,
                                           aclrtStream stream) {
  return Execute(__func__, aclnnMaxPool3dWithArgmaxBackward, workspace, workspace_size, executor, stream);
}
