// The backward operators of the ONNX domain "npu", version 1.
#ifndef POOLGRAD_EP_DIALECT_H_
#define POOLGRAD_EP_DIALECT_H_

#include <cstddef>
#include <cstring>

namespace poolgrad::ep {

constexpr const char* kDialectDomain = "npu";
constexpr int kDialectVersion = 1;

// An operator (x, grad, argmax) -> y, where y has the shape and type of x.
struct DialectOp {
  const char* name;
  std::size_t axes;         // the length of ksize, strides, pads and dilation; 0: the op has no attributes
  const char* data_format;  // the one that is supported
  bool has_dtype;
};

constexpr DialectOp kDialectOps[] = {
    {"MaxPool3DGradWithArgmax", 3, "NCDHW", false},
    {"MaxPoolGradWithArgmaxV3", 2, "NCHW", true},
    {"AdaptiveMaxPool3DGrad", 0, nullptr, false},
};

// The operator of this name, or null.
inline const DialectOp* FindDialectOp(const char* name) {
  for (const DialectOp& op : kDialectOps) {
    if (std::strcmp(op.name, name) == 0) return &op;
  }
  return nullptr;
}

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_DIALECT_H_
