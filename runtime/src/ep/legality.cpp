#include "ep/legality.h"

namespace poolgrad::ep {

bool IsValueType(ort::ONNXTensorElementDataType type) {
  return type == ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT || type == ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16 ||
         type == ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16;
}

bool IsInt64(ort::ONNXTensorElementDataType type) { return type == ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64; }

const Route& RequireRoute(const DialectOp& op, aclnn::Product product, const Shape& x,
                          ort::ONNXTensorElementDataType argmax) {
  const Route* route = FindRoute(op, product, x.rank, IsInt64(argmax));
  Require(route != nullptr, [&] {
    return "this product has no operator for x of rank " + std::to_string(x.rank) + " with " +
           (IsInt64(argmax) ? "int64" : "int32") + " argmax";
  });
  return *route;
}

}  // namespace poolgrad::ep
