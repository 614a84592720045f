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
  if (!IsStrict()) return {};
  const bool overlap = WindowsOverlap(call, windows);
  Conduct conduct;
  conduct.looks_at_windows = true;
  conduct.reversed = overlap && !call.entry.deterministic;
  conduct.copies = call.on_ascend950() && call.entry.api == Api::kMaxPool2dWithIndicesBackward &&
                   std::all_of(windows.begin(), windows.end(), IsOneElement);
  const bool summed_apart = overlap && !call.on_ascend950() && call.self->dtype != ACL_FLOAT;
  if (summed_apart) conduct.workspace_size = FloatCopySize(*call.grad_input);
  return conduct;
}

}  // namespace poolgrad::host
