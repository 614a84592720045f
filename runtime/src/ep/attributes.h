// SPDX-License-Identifier: Apache-2.0

// The attributes of a dialect node: read from onnxruntime, and checked.
#ifndef POOLGRAD_EP_ATTRIBUTES_H_
#define POOLGRAD_EP_ATTRIBUTES_H_

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "aclnn/call.h"
#include "ep/dialect.h"
#include "ep/ort_context.h"
#include "ep/shape.h"

namespace poolgrad::ep {

// A source of attributes: onnxruntime has one interface for nodes and another for kernels. Each function throws Error
// if the attribute is missing or of another type.
class AttributeSource {
 public:
  virtual ~AttributeSource() = default;
  virtual std::int64_t Int(const char* name) const = 0;
  virtual float Float(const char* name) const = 0;
  virtual std::vector<std::int64_t> Ints(const char* name) const = 0;
  virtual std::string String(const char* name) const = 0;
};

// Attributes that onnxruntime represents as OrtOpAttr.
class OpAttributes : public AttributeSource {
 public:
  explicit OpAttributes(const OrtContext& ort) : ort_(ort) {}
  std::int64_t Int(const char* name) const override;
  float Float(const char* name) const override;
  std::vector<std::int64_t> Ints(const char* name) const override;
  std::string String(const char* name) const override;

 private:
  // The attribute, or null.
  virtual const ort::OrtOpAttr* Find(const char* name) const = 0;
  std::size_t Read(const char* name, ort::OrtOpAttrType type, void* data, std::size_t bytes) const;

 protected:
  const OrtContext& ort_;
};

class NodeAttributes : public OpAttributes {
 public:
  NodeAttributes(const OrtContext& ort, const ort::OrtNode* node) : OpAttributes(ort), node_(node) {}

 private:
  const ort::OrtOpAttr* Find(const char* name) const override;

  const ort::OrtNode* node_;
};

class KernelAttributes : public AttributeSource {
 public:
  KernelAttributes(const OrtContext& ort, const ort::OrtKernelInfo* info) : ort_(ort), info_(info) {}
  std::int64_t Int(const char* name) const override;
  float Float(const char* name) const override;
  std::vector<std::int64_t> Ints(const char* name) const override;
  std::string String(const char* name) const override;

 private:
  void CheckRead(const char* name, ort::OrtStatus* status) const;

  const OrtContext& ort_;
  const ort::OrtKernelInfo* info_;
};

// The attributes of a pool in ONNX's terms (onnx_*), which its function body uses, as far as Ascend's do not say the
// same.
struct OnnxWindow {
  std::size_t rank = 0;                       // the number of spatial axes of x
  std::array<std::int64_t, 3> padding_end{};  // behind x, of D, H and W
  bool ceil_mode = false;
};

struct Attributes {
  // What the op has no attributes for is default. That of a max pool's gradient has no dilation: its windows are those
  // without gaps that span the same elements.
  aclnn::Window window;
  OnnxWindow onnx;                                            // of a pool, or an average pool's gradient, with windows
  std::optional<ort::ONNXTensorElementDataType> argmax_type;  // from the attribute that names it, if there is one
  std::optional<Shape> x_shape;                               // the same
};

// Throws InvalidArgument if an attribute is missing or outside of the range of aclnn (CANN documentation of
// aclnnMaxPool3dWithArgmax: sizes and strides positive, 0 <= padding <= kernel / 2), or if the onnx_* attributes give
// other windows: of a pool other kernels, strides, dilations or leading pads, of an average pool's gradient anything.
Attributes ReadAttributes(const DialectOp& op, const AttributeSource& source);

// Parts of ReadAttributes.

// Reads `count` values from `low` to the maximum of int32.
std::vector<std::int64_t> ReadList(const AttributeSource& source, const char* name, std::size_t count,
                                   std::int64_t low);
void RequireText(const AttributeSource& source, const char* name, const char* value);
void RequirePaddingWithinHalfKernel(const aclnn::Window& window);

// Reads the windows of an average pool's gradient.
void ReadAverageWindow(const DialectOp& op, const AttributeSource& source, Attributes& attributes);

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_ATTRIBUTES_H_
