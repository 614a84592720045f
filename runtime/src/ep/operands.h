// The operands of one Run of a kernel: taken from onnxruntime, and as aclnn reads them.
#ifndef POOLGRAD_EP_OPERANDS_H_
#define POOLGRAD_EP_OPERANDS_H_

#include "aclnn/tensor_view.h"
#include "ep/legality.h"
#include "ep/ort_context.h"

namespace poolgrad::ep {

struct Tensor {
  Argument argument;
  void* data = nullptr;
};

// Throws InvalidArgument if the input is missing or a scalar.
Tensor Input(const OrtContext& ort, ort::OrtKernelContext* context, std::size_t index);

// An output of this shape, which is made here. Throws InvalidArgument if it is missing or not of `type`, or
// if there was no memory for it.
Tensor Output(const OrtContext& ort, ort::OrtKernelContext* context, std::size_t index, const Shape& shape,
              ort::ONNXTensorElementDataType type);

// aclnn takes tensors from addresses that are multiples of this many bytes, and does not look at others.
constexpr std::size_t kTensorAlignment = 32;

// Throws InvalidArgument, with the tensor's name, if it begins at another address: onnxruntime's buffers are aligned,
// but a caller may bind memory of its own.
void RequireAligned(const char* name, const Tensor& tensor);

// A tensor as the entry of a route reads it: NCDHW, or NCHW of a tensor whose D is 1.
class OperandView {
 public:
  OperandView(const Tensor& tensor, std::size_t rank);

  aclnn::TensorView Get() const;

 private:
  const Tensor& tensor_;
  std::size_t rank_;
  std::array<std::int64_t, Shape::kMaxRank> dims_;
};

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_OPERANDS_H_
