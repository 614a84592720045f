// SPDX-License-Identifier: Apache-2.0

#include "host/operators/conduct.h"

#include <algorithm>

#include "host/mode.h"

namespace poolgrad::host {
namespace {

constexpr uint64_t kWorkspaceUnit = 512;  // bytes

bool Overlaps(const WindowAxis& window) { return Wide{window.dilation} * (window.kernel - 1) + 1 > window.stride; }

bool IsOneElement(const WindowAxis& window) { return window.kernel == 1 && window.stride == 1; }

// Adaptive windows overlap along an axis if their number does not divide the axis's size.
bool AdaptiveWindowsOverlap(const PoolCall& call) {
  const std::vector<int64_t>& sizes = call.self->dims;
  const std::vector<int64_t>& counts = call.grad_output->dims;
  for (int64_t axis = 1; axis <= call.entry.axes; ++axis) {
    if (*(sizes.end() - axis) % *(counts.end() - axis) != 0) return true;
  }
  return false;
}

// Whether MaxPool3DGradWithArgmax of Atlas A2 and A3 runs the kernel that adds, for each element of a window in
// ascending order, the gradients of all windows whose maximum it is: to an element of x the last window's first. It
// computes 64 planes at once and needs 4 bytes for each element of a window and 8 for each in rows of whole blocks; 702
// such elements fit into the local memory of a core. Windows with gaps, and larger ones, are scattered in row-major
// order. Planes that do not fit are computed in parts, whose sums are added in no order; here they have the same one as
// others. ops-nn, pooling/max_pool3d_grad_with_argmax/: IsCapable and CalUBTotalSize in
// op_host/max_pool3d_grad_with_argmax_normal_tiling.cpp, lines 28-76; CalcBlock in
// op_kernel/max_pool3d_grad_with_argmax_normal.h, lines 399-427.
bool AddsByElements(const PoolCall& call, const std::vector<WindowAxis>& windows) {
  constexpr Wide kBlock = 8, kMostElements = 702;
  if (call.on_ascend950() || windows.empty()) return false;
  Wide rows = 1;
  for (const WindowAxis& window : windows) {
    if (window.dilation != 1 || window.kernel > kMostElements) return false;
    rows *= &window == &windows.back() ? 1 : window.kernel;
  }
  const Wide width = windows.back().kernel;
  return rows * (width + 2 * ((width + kBlock - 1) / kBlock * kBlock)) <= kMostElements;
}

}  // namespace

uint64_t FloatCopySize(const aclTensor& tensor) {
  const auto bytes = static_cast<uint64_t>(ElementCount(tensor.dims)) * sizeof(float);
  return (bytes + kWorkspaceUnit - 1) / kWorkspaceUnit * kWorkspaceUnit;
}

bool WindowsOverlap(const PoolCall& call, const std::vector<WindowAxis>& windows) {
  return windows.empty() ? AdaptiveWindowsOverlap(call) : std::any_of(windows.begin(), windows.end(), Overlaps);
}

bool IsTiledInPhase1(const PoolCall& call) {
  return IsAdaptive(call.entry.api) && (call.on_ascend950() || AdaptiveWindowsOverlap(call));
}

Conduct ConductOf(const PoolCall& call, const std::vector<WindowAxis>& windows) {
  const bool overlap = WindowsOverlap(call, windows);
  Conduct conduct;
  conduct.reversed = overlap && AddsByElements(call, windows);
  if (!IsStrict()) return conduct;
  conduct.looks_at_windows = true;
  conduct.reversed ^= overlap && !call.entry.deterministic;
  conduct.copies = call.on_ascend950() && call.entry.api == Api::kMaxPool2dWithIndicesBackward &&
                   std::all_of(windows.begin(), windows.end(), IsOneElement);
  const bool summed_apart = overlap && !call.on_ascend950() && call.self->dtype != ACL_FLOAT;
  if (summed_apart) conduct.workspace_size = FloatCopySize(*call.grad_input);
  return conduct;
}

}  // namespace poolgrad::host
