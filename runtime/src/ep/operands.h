// SPDX-License-Identifier: Apache-2.0

// The operands of one Run of a kernel: read from onnxruntime, and converted to views for aclnn.
#ifndef POOLGRAD_EP_OPERANDS_H_
#define POOLGRAD_EP_OPERANDS_H_

#include <initializer_list>

#include "aclnn/call.h"
#include "ep/legality.h"
#include "ep/ort_context.h"

namespace poolgrad::ep {

struct Tensor {
  Argument argument;
  void* data = nullptr;
};

// Throws InvalidArgument if the input is missing or a scalar.
Tensor Input(const OrtContext& ort, ort::OrtKernelContext* context, std::size_t index);

// Creates an output of this shape. Throws InvalidArgument if it is missing, has another type, or could not be
// allocated.
Tensor Output(const OrtContext& ort, ort::OrtKernelContext* context, std::size_t index, const Shape& shape,
              ort::ONNXTensorElementDataType type);

// The shape that a tensor of int32 in host memory holds. Throws InvalidArgument unless it has `rank` sizes.
Shape ReadShape(const Tensor& sizes, std::size_t rank);

// aclnn requires tensor addresses that are multiples of this many bytes, and does not check them.
constexpr std::size_t kTensorAlignment = 32;

struct NamedTensor {
  const char* name;
  aclnn::Role role;
  const Tensor& tensor;
};

// Throws InvalidArgument, with the tensor's name, if a tensor has another address: onnxruntime's buffers are aligned,
// but a caller may bind memory of its own.
void RequireAligned(std::initializer_list<NamedTensor> tensors);

// A tensor as a function of this rank reads it: NCDHW, or NCHW if D is 1.
aclnn::TensorView ViewOf(const Tensor& tensor, std::size_t rank);

// A call of the function on the tensors that have the roles of its operands.
aclnn::Call CallOf(const aclnn::Function& function, const aclnn::Window& window,
                   std::initializer_list<NamedTensor> tensors);

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_OPERANDS_H_
