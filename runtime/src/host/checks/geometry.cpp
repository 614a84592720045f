// SPDX-License-Identifier: Apache-2.0

#include "host/checks/geometry.h"

#include <algorithm>
#include <limits>

namespace poolgrad::host {
namespace {

// The nearest int64_t, for messages.
int64_t Clamp(Wide value) {
  constexpr Wide kLeast = std::numeric_limits<int64_t>::min();
  constexpr Wide kGreatest = std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(std::clamp(value, kLeast, kGreatest));
}

}  // namespace

Status CheckPlaneCount(const Planes& self, const Planes& grad_output, int code) {
  if (grad_output.n == self.n && grad_output.c == self.c) return {};
  return Fail(code, "gradOutput has N = ", grad_output.n, " and C = ", grad_output.c, "; self has N = ", self.n,
              " and C = ", self.c);
}

Status CheckPooled(const Planes& self, const Planes& grad_output, const std::vector<WindowAxis>& windows,
                   bool ceil_mode, int code, bool truncates) {
  std::vector<int64_t> pooled;
  for (size_t axis = 0; axis < windows.size(); ++axis) {
    const int64_t size = self.dims[self.dims.size() - windows.size() + axis];
    pooled.push_back(Clamp(OutputSize(size, windows[axis], ceil_mode, truncates)));
  }
  if (std::any_of(pooled.begin(), pooled.end(), [](int64_t size) { return size <= 0; })) {
    return Fail(code, "the windows do not fit into self: they give gradOutput a plane of ", DimsText(pooled));
  }
  const std::vector<int64_t> given(grad_output.dims.end() - static_cast<int64_t>(windows.size()),
                                   grad_output.dims.end());
  if (given != pooled) {
    return Fail(code, "gradOutput has planes of ", DimsText(given), "; the windows over self give ", DimsText(pooled));
  }
  return CheckPlaneCount(self, grad_output, code);
}

Status CheckIndexed(const Planes& grad_output, const Planes& indices, int code) {
  if (indices.Dims() == grad_output.Dims()) return {};
  return Fail(code, "indices has (N, C, D, H, W) = ", DimsText(indices.Dims()), "; gradOutput has ",
              DimsText(grad_output.Dims()));
}

}  // namespace poolgrad::host
