// SPDX-License-Identifier: Apache-2.0

// The provider's checks of a node on any attributes, types and shapes: an Error, or a node that can run.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>

#include "bytes.h"
#include "ep/dialect_table.h"
#include "ep/legality.h"
#include "ep/pooling.h"

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

  std::int64_t Int(const char* name) const override {
    RequireThere();
    if (IsAverage()) return flags_[name] = bytes_.OneIn(32) ? bytes_.Number() : Flag(name);
    return bytes_.OneIn(4) ? bytes_.Number() : (bytes_.OneIn(2) ? ACL_INT32 : ACL_INT64);
  }

  float Float(const char*) const override {
    RequireThere();
    return static_cast<float>(bytes_.OneIn(16) ? bytes_.Number() : flags_["divisor_override"]);
  }

  // Mostly what Ascend's attribute of that meaning had, for ONNX's: any numbers would hardly ever be the same.
  std::vector<std::int64_t> Ints(const char* name) const override {
    RequireThere();
    const std::string asked = name;
    if (IsAverage() && asked.rfind("onnx_", 0) == 0 && !bytes_.OneIn(32)) return AverageTwin(asked);
    if (IsAverage() && asked == "pads" && !bytes_.OneIn(8)) return given_[asked] = Pairs(op_.axes);
    const auto twin = kTwins.find(asked);
    if (twin != kTwins.end() && !bytes_.OneIn(16)) {
      const std::vector<std::int64_t>& ascend = given_[twin->second];
      std::vector<std::int64_t> values = ascend;
      if (asked == "onnx_pads") values.insert(values.end(), ascend.begin(), ascend.end());
      return values;
    }
    return given_[asked] = bytes_.Numbers(bytes_.OneIn(16) ? bytes_.Below(9) : LengthOf(asked));
  }

  std::string String(const char* name) const override {
    RequireThere();
    if (std::string(name) == "padding_mode" && !bytes_.OneIn(16)) return "CALCULATED";
    return op_.data_format == nullptr || bytes_.OneIn(16) ? "ND" : op_.data_format;
  }

 private:
  bool IsAverage() const { return Has(op_.inputs, Part::kSizes); }

  std::int64_t Flag(const std::string& name) const {
    if (name == "global_pooling") return 0;
    return name == "divisor_override" && bytes_.OneIn(2) ? 0 : static_cast<std::int64_t>(bytes_.Below(2));
  }

  std::vector<std::int64_t> Pairs(std::size_t count) const {
    std::vector<std::int64_t> values;
    for (const std::int64_t value : bytes_.Numbers(count)) values.insert(values.end(), 2, value);
    return values;
  }

  // What the attribute is by Ascend's, which were read before it, for all axes.
  std::vector<std::int64_t> AverageTwin(const std::string& name) const {
    const auto last = [&](const char* list) {
      const std::vector<std::int64_t>& values = given_[list];
      return std::vector<std::int64_t>(values.end() - std::min(values.size(), op_.axes), values.end());
    };
    std::vector<std::int64_t> strides = last("strides"), pads;
    if (name == "onnx_kernel_shape") return last("ksize");
    if (name == "onnx_strides") return strides;
    for (std::int64_t& stride : strides) --stride;
    if (name == "onnx_output_padding") return strides;
    for (std::size_t i = 0; i < given_["pads"].size(); i += 2) pads.push_back(given_["pads"][i]);
    const bool counts = op_.axes == 2 ? flags_["exclusive"] == 0 : flags_["count_include_pad"] != 0;
    const bool has_begins = name == "onnx_pads" || counts == (name == "onnx_counted_pads");
    std::vector<std::int64_t> values(2 * op_.axes);
    for (std::size_t axis = 0; axis < std::min(pads.size(), op_.axes) && axis < strides.size(); ++axis) {
      if (has_begins) values[axis] = pads[axis];
      if (name == "onnx_pads") continue;
      if (has_begins) values[op_.axes + axis] = pads[axis];
      if (name == "onnx_uncounted_pads" && flags_["ceil_mode"] != 0) values[op_.axes + axis] += strides[axis];
    }
    return values;
  }

  // The number of values of a list. AvgPoolV2Grad has entries for N and C; the pads of an average pool are in pairs.
  std::size_t LengthOf(const std::string& name) const {
    if (op_.axes == 0) return name == "orig_input_shape" ? 4 : 3;
    if (IsAverage() && name == "pads") return 2 * op_.axes;
    return IsAverage() && op_.axes == 2 ? 2 + op_.axes : op_.axes;
  }

  void RequireThere() const { Require(!bytes_.OneIn(64), "the node does not have it"); }

  const std::map<std::string, std::string> kTwins = {{"onnx_kernel_shape", "ksize"},
                                                     {"onnx_strides", "strides"},
                                                     {"onnx_pads", "pads"},
                                                     {"onnx_dilations", "dilation"}};

  Bytes& bytes_;
  const DialectOp& op_;
  mutable std::map<std::string, std::vector<std::int64_t>> given_;
  mutable std::map<std::string, std::int64_t> flags_;
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
  const Route& route = CheckBackward(op, attributes, product, arguments);
  if (ReadsArgmax(op) || !arguments.x.shape.IsKnown() || !arguments.grad.shape.IsKnown()) return;
  const aclnn::Window window =
      AverageWindowFor(route.entry, attributes.window, arguments.x.type, arguments.x.shape, arguments.grad.shape);
  Expect(arguments.x.shape.IsEmpty() || window.divisor_override <= kInt32Max);
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
