// The attributes of a dialect node: what the dialect asks of them, and reading them from onnxruntime.
#ifndef POOLGRAD_EP_ATTRIBUTES_H_
#define POOLGRAD_EP_ATTRIBUTES_H_

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "aclnn/call.h"
#include "ep/dialect.h"
#include "ep/ort_context.h"

namespace poolgrad::ep {

// Where attributes are read from: onnxruntime has one interface on nodes and another on kernels. Each
// function throws Error if the attribute is missing or of another type.
class AttributeSource {
 public:
  virtual ~AttributeSource() = default;
  virtual std::int64_t Int(const char* name) const = 0;
  virtual std::vector<std::int64_t> Ints(const char* name) const = 0;
  virtual std::string String(const char* name) const = 0;
};

// Attributes as onnxruntime's graph holds them.
class OpAttributes : public AttributeSource {
 public:
  explicit OpAttributes(const OrtContext& ort) : ort_(ort) {}
  std::int64_t Int(const char* name) const override;
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
  std::vector<std::int64_t> Ints(const char* name) const override;
  std::string String(const char* name) const override;

 private:
  void CheckRead(const char* name, ort::OrtStatus* status) const;

  const OrtContext& ort_;
  const ort::OrtKernelInfo* info_;
};

// What the attributes of a pool in ONNX's words, by which its function body pools, say beside Ascend's.
struct OnnxWindow {
  std::size_t rank = 0;                       // how many spatial axes x has
  std::array<std::int64_t, 3> padding_end{};  // behind x, of D, H and W
  bool ceil_mode = false;
};

struct Attributes {
  aclnn::Window window;                                       // left at its default by ops without a window
  OnnxWindow onnx;                                            // of a pool with a window
  std::array<std::int64_t, 3> output_size{};                  // of the adaptive pool
  std::optional<ort::ONNXTensorElementDataType> argmax_type;  // what an attribute promises, if there is one
};

// Throws InvalidArgument if an attribute is missing or outside what aclnn takes (CANN documentation of
// aclnnMaxPool3dWithArgmax: sizes and strides positive, 0 <= padding <= kernel / 2), or if a pool's attributes in
// ONNX's words begin or space its windows in another way.
Attributes ReadAttributes(const DialectOp& op, const AttributeSource& source);

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_ATTRIBUTES_H_
