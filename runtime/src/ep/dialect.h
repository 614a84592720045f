// SPDX-License-Identifier: Apache-2.0

// What an operator of the ONNX domain "npu" is. `dialect_table.h` has the operators.
#ifndef POOLGRAD_EP_DIALECT_H_
#define POOLGRAD_EP_DIALECT_H_

#include <cstddef>
#include <initializer_list>
#include <optional>

#include "abi/acl.h"
#include "abi/ort.h"

namespace poolgrad::ep {

// An element type: its name in texts, and its numbers in ONNX and in CANN.
struct ElementType {
  const char* name;
  ort::ONNXTensorElementDataType onnx;
  aclDataType acl;
};

enum class Direction {
  kForward,   // x -> y, argmax
  kBackward,  // grad and others -> y, where y has the shape and type of x
};

// What an input or output of an operator is.
enum class Part {
  kX,       // the pooled input
  kGrad,    // the gradient of the pooled output
  kArgmax,  // the positions of the maxima
  kSizes,   // the shape of x, int32
  kY,       // the pooled output, or the gradient of x
};
using Parts = std::initializer_list<Part>;

// Of a gradient without an input for x or for its shape, the attribute orig_input_shape is that shape.
struct DialectOp {
  const char* name;
  Direction direction;
  Parts inputs;
  Parts outputs;
  std::size_t axes;         // the spatial axes of ksize, strides and pads; 0: adaptive
  const char* data_format;  // the supported value; null without this attribute
  const char* index_type;   // the attribute that names argmax's type
};

// The position of a part among inputs or outputs, or nullopt.
constexpr std::optional<std::size_t> PositionOf(Parts parts, Part part) {
  std::size_t position = 0;
  for (const Part each : parts) {
    if (each == part) return position;
    ++position;
  }
  return std::nullopt;
}

constexpr bool Has(Parts parts, Part part) { return PositionOf(parts, part).has_value(); }

// Whether the operator is the gradient of a max pool, which adds at the positions of the maxima. The other gradients
// are those of average pools.
constexpr bool ReadsArgmax(const DialectOp& op) { return Has(op.inputs, Part::kArgmax); }

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_DIALECT_H_
