// SPDX-License-Identifier: Apache-2.0

// The attributes of the gradients of average pools that have windows.

#include <algorithm>
#include <limits>

#include "ep/attributes.h"

namespace poolgrad::ep {
namespace {

using Values = std::vector<std::int64_t>;

// What the two operators spell differently.
struct Spelling {
  std::size_t axes;
  std::size_t leading;       // the values of ksize and strides before those of the axes: of N and C
  const char* padding_flag;  // says whether windows count their elements in the padding
  bool flag_counts;          // the value of the flag with which they do
};

constexpr Spelling kSpellings[] = {
    {3, 0, "count_include_pad", true},
    {2, 2, "exclusive", false},
};

const Spelling& SpellingOf(const DialectOp& op) {
  return op.axes == kSpellings[0].axes ? kSpellings[0] : kSpellings[1];
}

void ReadAxes(const Spelling& spelling, const AttributeSource& source, const char* name, aclnn::Axes& out) {
  const Values values = ReadList(source, name, spelling.leading + spelling.axes, 1);
  if (std::any_of(values.begin(), values.begin() + spelling.leading, [](std::int64_t value) { return value != 1; })) {
    throw InvalidArgument(std::string(name) + " is not 1 for N and C");
  }
  std::copy(values.begin() + spelling.leading, values.end(), out.end() - spelling.axes);
}

// Pads are given before and after each axis. aclnn has one value for both.
void ReadPads(const Spelling& spelling, const AttributeSource& source, aclnn::Axes& out) {
  const Values pads = ReadList(source, "pads", 2 * spelling.axes, 0);
  for (std::size_t axis = 0; axis < spelling.axes; ++axis) {
    if (pads[2 * axis] != pads[2 * axis + 1]) {
      throw InvalidArgument("pads holds " + std::to_string(pads[2 * axis]) + " before an axis and " +
                            std::to_string(pads[2 * axis + 1]) + " after it");
    }
    out[out.size() - spelling.axes + axis] = pads[2 * axis];
  }
}

// The axes that x of this rank lacks have windows of one element.
void RequireAbsentAxes(const aclnn::Window& window, std::size_t axes) {
  for (std::size_t axis = 0; axis + axes < window.kernel.size(); ++axis) {
    if (window.kernel[axis] == 1 && window.stride[axis] == 1 && window.padding[axis] == 0) continue;
    throw InvalidArgument(std::string("the attributes pool along ") + "DHW"[axis] + ", which onnx_kernel_shape lacks");
  }
}

// The attributes of the function body follow from Ascend's: see dialect/average_window.py.
void RequireOnnxWindow(const AttributeSource& source, const aclnn::Window& window, std::size_t axes) {
  const auto last = [&](const aclnn::Axes& values) { return Values(values.end() - axes, values.end()); };
  const auto joined = [](Values begins, const Values& ends) {
    begins.insert(begins.end(), ends.begin(), ends.end());
    return begins;
  };
  const auto require = [&](const char* name, const Values& expected) {
    if (source.Ints(name) != expected) {
      throw InvalidArgument(std::string(name) + " names other windows than Ascend's attributes");
    }
  };
  const Values strides = last(window.stride), pads = last(window.padding), none(axes);
  Values between(axes), reached = pads, beyond(axes);
  for (std::size_t axis = 0; axis < axes; ++axis) {
    between[axis] = strides[axis] - 1;
    beyond[axis] = window.ceil_mode ? strides[axis] - 1 : 0;
    reached[axis] += beyond[axis];
  }
  const bool counts = window.count_include_pad;
  require("onnx_kernel_shape", last(window.kernel));
  require("onnx_strides", strides);
  require("onnx_pads", joined(pads, none));
  require("onnx_output_padding", between);
  require("onnx_counted_pads", counts ? joined(pads, pads) : joined(none, none));
  require("onnx_uncounted_pads", counts ? joined(none, beyond) : joined(pads, reached));
  if (source.Float("onnx_divisor") != static_cast<float>(window.divisor_override)) {
    throw InvalidArgument("onnx_divisor is not divisor_override");
  }
}

}  // namespace

void ReadAverageWindow(const DialectOp& op, const AttributeSource& source, Attributes& attributes) {
  const Spelling& spelling = SpellingOf(op);
  aclnn::Window& window = attributes.window;
  ReadAxes(spelling, source, "ksize", window.kernel);
  ReadAxes(spelling, source, "strides", window.stride);
  ReadPads(spelling, source, window.padding);
  RequirePaddingWithinHalfKernel(window);
  window.ceil_mode = source.Int("ceil_mode") != 0;
  window.count_include_pad = (source.Int(spelling.padding_flag) != 0) == spelling.flag_counts;
  window.divisor_override = source.Int("divisor_override");
  if (window.divisor_override < 0 || window.divisor_override > std::numeric_limits<std::int32_t>::max()) {
    throw InvalidArgument("divisor_override is " + std::to_string(window.divisor_override) +
                          ", below 0 or above int32");
  }
  if (spelling.leading > 0) {
    RequireText(source, "padding_mode", "CALCULATED");
    if (source.Int("global_pooling") != 0) throw InvalidArgument("global_pooling is not 0");
  }
  const std::size_t axes = source.Ints("onnx_kernel_shape").size();
  if (axes == 0 || axes > spelling.axes || (spelling.leading > 0 && axes != spelling.axes)) {
    throw InvalidArgument("onnx_kernel_shape has " + std::to_string(axes) + " values");
  }
  attributes.onnx.rank = axes;
  RequireAbsentAxes(window, axes);
  RequireOnnxWindow(source, window, axes);
}

}  // namespace poolgrad::ep
