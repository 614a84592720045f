#include "ep/shape.h"

#include <algorithm>

namespace poolgrad::ep {

bool Shape::IsKnown() const {
  return rank > 0 && std::all_of(dims.begin(), dims.begin() + rank, [](std::int64_t dim) { return dim >= 0; });
}

bool Shape::IsEmpty() const { return std::find(dims.begin(), dims.begin() + rank, 0) != dims.begin() + rank; }

std::array<std::int64_t, Shape::kMaxRank> Shape::AsNcdhw() const {
  std::array<std::int64_t, kMaxRank> view{dims[0], dims[1], 1, 1, 1};
  std::copy(dims.begin() + 2, dims.begin() + rank, view.end() - (rank - 2));
  return view;
}

std::string ToString(const Shape& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.rank; ++i) {
    text += (i == 0 ? "" : ", ") + (shape.dims[i] < 0 ? "?" : std::to_string(shape.dims[i]));
  }
  return text + ")";
}

}  // namespace poolgrad::ep
