// SPDX-License-Identifier: Apache-2.0

// Phase 1 of every operator of the host library on any tensors and lists, and phase 2 where all tensors have memory:
// a documented code comes back, nothing stays, and no byte outside of the tensors is touched.
#include <cstdlib>
#include <memory>
#include <type_traits>

#include "abi/acl.h"
#include "bytes.h"
#include "host/control.h"

namespace {

using poolgrad::fuzz::Bytes;

constexpr std::int64_t kMostElements = 4096;

void Expect(bool condition) {
  if (!condition) std::abort();
}

int Documented(int code) {
  for (const poolgrad::AclErrorName& row : poolgrad::kAclErrorNames) {
    if (row.code == code) return code;
  }
  std::abort();
}

// The number of elements, or 0 if they are more than memory is made for.
std::int64_t SmallCount(const std::vector<std::int64_t>& dims) {
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) {
    if (dim <= 0 || dim > kMostElements / count) return 0;
    count *= dim;
  }
  return count;
}

std::vector<std::int64_t> Contiguous(const std::vector<std::int64_t>& dims) {
  std::vector<std::int64_t> strides(dims.size(), 1);
  for (std::size_t axis = dims.size(); axis-- > 1;) {
    if (__builtin_mul_overflow(strides[axis], dims[axis], &strides[axis - 1])) return strides;
  }
  return strides;
}

class Tensor {
 public:
  Tensor(Bytes& bytes, std::vector<std::int64_t> dims, aclDataType dtype) {
    constexpr aclDataType kTypes[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_INT32, ACL_INT64, ACL_DOUBLE, ACL_INT8};
    constexpr aclFormat kFormats[] = {ACL_FORMAT_NCHW, ACL_FORMAT_NCDHW, ACL_FORMAT_ND, ACL_FORMAT_NHWC,
                                      ACL_FORMAT_NCL};
    if (bytes.OneIn(16)) dtype = kTypes[bytes.Below(std::size(kTypes))];
    const aclFormat format = kFormats[bytes.OneIn(8) ? bytes.Below(std::size(kFormats)) : 0];
    const bool is_odd = bytes.OneIn(8);
    const std::vector<std::int64_t> strides = is_odd ? bytes.Numbers(dims.size()) : Contiguous(dims);
    const std::int64_t offset = is_odd ? bytes.Number() : 0;
    const std::vector<std::int64_t> storage = is_odd ? bytes.Numbers(bytes.Below(4)) : dims;
    // Strides of 0 make many elements of little storage; the kernels would read each.
    elements_ = SmallCount(dims) > 0 ? SmallCount(storage) : 0;
    memory_ = std::make_unique<std::int64_t[]>(static_cast<std::size_t>(elements_));
    for (std::int64_t i = 0; i < elements_; ++i) memory_[i] = bytes.Number();
    if (!bytes.OneIn(64)) {
      tensor_ = aclCreateTensor(dims.data(), dims.size(), dtype, bytes.OneIn(8) ? nullptr : strides.data(), offset,
                                format, storage.data(), storage.size(), memory_.get());
    }
  }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  ~Tensor() { Documented(aclDestroyTensor(tensor_)); }

  operator aclTensor*() const { return tensor_; }
  bool has_memory() const { return elements_ > 0; }

 private:
  std::unique_ptr<std::int64_t[]> memory_;  // of the largest elements that there are
  std::int64_t elements_ = 0;
  aclTensor* tensor_ = nullptr;
};

class IntArray {
 public:
  IntArray(Bytes& bytes, std::size_t usual) {
    if (bytes.OneIn(64)) return;
    const std::vector<std::int64_t> values = bytes.Numbers(bytes.OneIn(8) ? bytes.Below(5) : usual);
    array_ = aclCreateIntArray(values.data(), values.size());
  }
  IntArray(const IntArray&) = delete;
  IntArray& operator=(const IntArray&) = delete;
  ~IntArray() { Documented(aclDestroyIntArray(array_)); }

  operator const aclIntArray*() const { return array_; }

 private:
  aclIntArray* array_ = nullptr;
};

using Execute = decltype(&aclnnMaxPool3dWithArgmax);

// The second phase, where the first one succeeded: with memory the call is made, else the executor goes.
void Finish(int code, aclOpExecutor* executor, std::uint64_t workspace_size, bool has_memory, Execute execute) {
  if (Documented(code) != ACLNN_SUCCESS) {
    Expect(executor == nullptr);
  } else if (has_memory) {
    const auto workspace = std::make_unique<char[]>(workspace_size);
    Documented(execute(workspace.get(), workspace_size, executor, nullptr));
    Documented(aclrtSynchronizeStream(nullptr));
  } else {
    Documented(aclDestroyAclOpExecutor(executor));
  }
}

struct Windows {
  Windows(Bytes& bytes, std::size_t axes)
      : kernel(bytes, axes), stride(bytes, axes), padding(bytes, axes), dilation(bytes, axes), ceil(bytes.OneIn(2)) {}
  IntArray kernel, stride, padding, dilation;
  bool ceil;
};

struct Operands {
  Operands(Bytes& bytes, std::size_t axes) : Operands(bytes, Dims(bytes, axes), axes) {}
  bool have_memory() const {
    return grad.has_memory() && x.has_memory() && indices.has_memory() && result.has_memory();
  }
  Tensor grad, x, indices, result;

 private:
  static std::vector<std::int64_t> Dims(Bytes& bytes, std::size_t axes) {
    return bytes.Numbers(bytes.OneIn(16) ? bytes.Below(7) : axes + 1 + bytes.Below(2));
  }
  // As many positions as x has along the first two axes, of any other sizes.
  Operands(Bytes& bytes, const std::vector<std::int64_t>& dims, std::size_t axes)
      : Operands(bytes, dims, Pooled(bytes, dims, axes)) {}
  Operands(Bytes& bytes, const std::vector<std::int64_t>& dims, const std::vector<std::int64_t>& pooled)
      : grad(bytes, pooled, ACL_FLOAT),
        x(bytes, dims, ACL_FLOAT),
        indices(bytes, pooled, bytes.OneIn(2) ? ACL_INT64 : ACL_INT32),
        result(bytes, dims, ACL_FLOAT) {}
  static std::vector<std::int64_t> Pooled(Bytes& bytes, std::vector<std::int64_t> dims, std::size_t axes) {
    for (std::size_t axis = dims.size() > axes ? dims.size() - axes : 0; axis < dims.size(); ++axis) {
      if (!bytes.OneIn(3)) dims[axis] = bytes.Number();
    }
    return dims;
  }
};

template <auto Plan, auto Execute>
void Pool(Bytes& bytes, std::size_t axes) {
  const Operands operands(bytes, axes);
  const Windows windows(bytes, axes);
  std::uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  const int code = Plan(operands.x, windows.kernel, windows.stride, windows.padding, windows.dilation, windows.ceil,
                        operands.grad, operands.indices, &size, &executor);
  Finish(code, executor, size, operands.have_memory(), Execute);
}

template <auto Plan, auto Execute>
void PoolGradient(Bytes& bytes, std::size_t axes) {
  const Operands operands(bytes, axes);
  const Windows windows(bytes, axes);
  std::uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  const int code = Plan(operands.grad, operands.x, operands.indices, windows.kernel, windows.stride, windows.padding,
                        windows.dilation, windows.ceil, operands.result, &size, &executor);
  Finish(code, executor, size, operands.have_memory(), Execute);
}

template <auto Plan, auto Execute>
void AdaptivePool(Bytes& bytes, std::size_t axes) {
  const Operands operands(bytes, axes);
  const IntArray output_size(bytes, axes);
  std::uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  const int code = Plan(operands.x, output_size, operands.grad, operands.indices, &size, &executor);
  Finish(code, executor, size, operands.have_memory(), Execute);
}

template <auto Plan, auto Execute>
void AdaptivePoolGradient(Bytes& bytes, std::size_t axes) {
  const Operands operands(bytes, axes);
  std::uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  const int code = Plan(operands.grad, operands.x, operands.indices, operands.result, &size, &executor);
  Finish(code, executor, size, operands.have_memory(), Execute);
}

bool HaveMemory(const Operands& operands) {
  return operands.grad.has_memory() && operands.x.has_memory() && operands.result.has_memory();
}

template <auto Plan, auto Execute>
void AverageGradient(Bytes& bytes, std::size_t axes) {
  const Operands operands(bytes, axes);
  const Windows windows(bytes, axes);
  const bool counts_padding = bytes.OneIn(2);
  const std::int64_t divisor = bytes.OneIn(2) ? 0 : bytes.Number();
  std::uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  int code = ACLNN_SUCCESS;
  if constexpr (std::is_same_v<decltype(Plan), decltype(&aclnnAvgPool2dBackwardGetWorkspaceSize)>) {
    const auto cube_math_type = static_cast<std::int8_t>(bytes.OneIn(8) ? bytes.Number() : 0);
    code = Plan(operands.grad, operands.x, windows.kernel, windows.stride, windows.padding, windows.ceil,
                counts_padding, divisor, cube_math_type, operands.result, &size, &executor);
  } else {
    code = Plan(operands.grad, operands.x, windows.kernel, windows.stride, windows.padding, windows.ceil,
                counts_padding, divisor, operands.result, &size, &executor);
  }
  Finish(code, executor, size, HaveMemory(operands), Execute);
}

template <auto Plan, auto Execute>
void AdaptiveAverageGradient(Bytes& bytes, std::size_t axes) {
  const Operands operands(bytes, axes);
  std::uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  const int code = Plan(operands.grad, operands.x, operands.result, &size, &executor);
  Finish(code, executor, size, HaveMemory(operands), Execute);
}

struct Row {
  void (*call)(Bytes& bytes, std::size_t axes);
  std::size_t axes;
};

#define POOLGRAD_FUZZED(shape, name, axes) {shape<name##GetWorkspaceSize, name>, axes}
constexpr Row kRows[] = {
    POOLGRAD_FUZZED(Pool, aclnnMaxPool2dWithIndices, 2),
    POOLGRAD_FUZZED(Pool, aclnnMaxPool3dWithArgmax, 3),
    POOLGRAD_FUZZED(PoolGradient, aclnnMaxPool2dWithIndicesBackward, 2),
    POOLGRAD_FUZZED(PoolGradient, aclnnMaxPool3dWithArgmaxBackward, 3),
    POOLGRAD_FUZZED(AdaptivePool, aclnnAdaptiveMaxPool2d, 2),
    POOLGRAD_FUZZED(AdaptivePool, aclnnAdaptiveMaxPool3d, 3),
    POOLGRAD_FUZZED(AdaptivePoolGradient, aclnnAdaptiveMaxPool2dBackward, 2),
    POOLGRAD_FUZZED(AdaptivePoolGradient, aclnnAdaptiveMaxPool3dBackward, 3),
    POOLGRAD_FUZZED(AverageGradient, aclnnAvgPool2dBackward, 2),
    POOLGRAD_FUZZED(AverageGradient, aclnnAvgPool3dBackward, 3),
    POOLGRAD_FUZZED(AdaptiveAverageGradient, aclnnAdaptiveAvgPool2dBackward, 2),
    POOLGRAD_FUZZED(AdaptiveAverageGradient, aclnnAdaptiveAvgPool3dBackward, 3),
};
#undef POOLGRAD_FUZZED

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const int ready = aclInit(nullptr) + aclrtSetDevice(0);
  Expect(ready == ACL_SUCCESS);
  Bytes bytes(data, size);
  const Row& row = kRows[bytes.Below(std::size(kRows))];
  row.call(bytes, row.axes);
  Expect(aclnnHostLiveObjects(nullptr) == 0);
  return 0;
}
