// SPDX-License-Identifier: Apache-2.0

#include "ep/shape.h"

namespace poolgrad::ep {

std::string ToString(const Shape& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.rank; ++i) {
    text += (i == 0 ? "" : ", ") + (shape.dims[i] < 0 ? "?" : std::to_string(shape.dims[i]));
  }
  return text + ")";
}

}  // namespace poolgrad::ep
