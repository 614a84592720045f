// SPDX-License-Identifier: Apache-2.0

// The provider's checks of a node on any attributes, types and shapes: an Error, or a node that can run.
#include <cstdlib>
#include <map>
#include <string>

#include "bytes.h"
#include "ep/legality.h"

namespace {

using poolgrad::fuzz::Bytes;
using namespace poolgrad;
using namespace poolgrad::ep;

constexpr aclnn::Product kProducts[] = {aclnn::Product::kUnsupported, aclnn::Product::kAtlasA2A3,
                                        aclnn::Product::kAscend950};
constexpr ort::ONNXTensorElementDataType kTypes[] = {
    ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16,
    ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64,
    ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED};

// Attributes of a node that somebody wrote by hand.
class AnyAttributes : public AttributeSource {
 public:
  AnyAttributes(Bytes& bytes, const DialectOp& op) : bytes_(bytes), op_(op) {}

  std::int64_t Int(const char*) const override {
    RequireThere();
    return bytes_.OneIn(4) ? bytes_.Number() : (bytes_.OneIn(2) ? ACL_INT32 : ACL_INT64);
  }

  // Mostly what Ascend's attribute of that meaning had, for ONNX's: any numbers would hardly ever be the same.
  std::vector<std::int64_t> Ints(const char* name) const override {
    RequireThere();
    const std::string asked = name;
    const auto twin = kTwins.find(asked);
    if (twin != kTwins.end() && !bytes_.OneIn(16)) {
      const std::vector<std::int64_t>& ascend = given_[twin->second];
      std::vector<std::int64_t> values = ascend;
      if (asked == "onnx_pads") values.insert(values.end(), ascend.begin(), ascend.end());
      return values;
    }
    return given_[asked] = bytes_.Numbers(bytes_.OneIn(16) ? bytes_.Below(9) : (op_.axes > 0 ? op_.axes : 3));
  }

  std::string String(const char*) const override {
    RequireThere();
    return op_.data_format == nullptr || bytes_.OneIn(16) ? "ND" : op_.data_format;
  }

 private:
  void RequireThere() const { Require(!bytes_.OneIn(64), "the node does not have it"); }

  const std::map<std::string, std::string> kTwins = {{"onnx_kernel_shape", "ksize"},
                                                     {"onnx_strides", "strides"},
                                                     {"onnx_pads", "pads"},
                                                     {"onnx_dilations", "dilation"}};

  Bytes& bytes_;
  const DialectOp& op_;
  mutable std::map<std::string, std::vector<std::int64_t>> given_;
};

Argument AnyArgument(Bytes& bytes) {
  Argument argument{kTypes[bytes.Below(std::size(kTypes))], {}};
  argument.shape.rank = bytes.Below(Shape::kMaxRank + 1);
  for (std::size_t axis = 0; axis < argument.shape.rank; ++axis) {
    argument.shape.dims[axis] = std::max(bytes.Number(), std::int64_t{-1});  // -1 is an open size, less none at all
  }
  return argument;
}

void Expect(bool condition) {
  if (!condition) std::abort();
}

void CheckPool(const DialectOp& op, const Attributes& attributes, aclnn::Product product, Bytes& bytes) {
  const Argument x = AnyArgument(bytes);
  CheckForward(op, attributes, product, x);
  if (!x.shape.IsKnown()) return;
  const Shape pooled = PooledShape(op, attributes, x.shape);
  Expect(pooled.rank == x.shape.rank && pooled.IsKnown());
  Expect(pooled.IsEmpty() == x.shape.IsEmpty());
}

// The gradient of a pool has the shape that the pool gives, where the input does not ask for another one.
void CheckGradient(const DialectOp& op, const Attributes& attributes, aclnn::Product product, Bytes& bytes) {
  Arguments arguments{AnyArgument(bytes), {}, {}};
  if (bytes.OneIn(4)) {
    arguments.grad = AnyArgument(bytes);
    arguments.argmax = AnyArgument(bytes);
  } else {
    arguments.grad = arguments.argmax = arguments.x;
    arguments.argmax.type = kTypes[2 + bytes.Below(2)];
    for (std::size_t axis = 2; axis < arguments.x.shape.rank; ++axis) {
      arguments.grad.shape.dims[axis] = arguments.argmax.shape.dims[axis] = bytes.Number();
    }
  }
  CheckBackward(op, attributes, product, arguments);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes bytes(data, size);
  const DialectOp& op = kDialectOps[bytes.Below(std::size(kDialectOps))];
  const aclnn::Product product = kProducts[bytes.Below(std::size(kProducts))];
  try {
    const Attributes attributes = ReadAttributes(op, AnyAttributes(bytes, op));
    (op.direction == Direction::kForward ? CheckPool : CheckGradient)(op, attributes, product, bytes);
  } catch (const Error&) {  // what the provider tells onnxruntime
  }
  return 0;
}
