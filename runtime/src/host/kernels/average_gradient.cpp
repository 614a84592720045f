// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/average_gradient.h"

#include "host/kernels/average_blocks.h"
#include "host/kernels/average_gathers.h"
#include "host/kernels/average_plan.h"
#include "host/kernels/average_rows.h"
#include "host/kernels/parallel.h"

namespace poolgrad::host {
namespace {

// One window over all `size` elements.
bool IsWhole(const AxisSpans& axis, int64_t size) { return axis.spans.size() == 1 && axis.spans[0].count == size; }

// The same work with fewer axes: the last axes are one if each has a single window over all of it. Then vectors have
// more to do in a row.
AverageGradient Flattened(AverageGradient work) {
  Planes& x = work.grad_input;
  if (!IsWhole(work.windows[2], x.dims[2])) return work;
  for (size_t axis = 2; axis-- > 0;) {
    const bool adjoins = x.dims[axis] == 1 || x.strides[axis] == x.dims[2] * x.strides[2];
    if (!IsWhole(work.windows[axis], x.dims[axis]) || !adjoins) break;
    work.counts[2][0] *= work.counts[axis][0];
    work.counts[axis][0] = 1;
    x.dims[2] *= x.dims[axis];
    x.dims[axis] = 1;
    work.windows[axis] = {1, {{0, 1}}};
    work.windows[2] = {1, {{0, x.dims[2]}}};
    if (axis > 0) work.common[axis - 1] = WindowAxis{1, 1, 0, 1};
    work.common[1] = WindowAxis{x.dims[2], x.dims[2], 0, 1};
  }
  return work;
}

// Planes with fewer elements take longer to begin with than to compute.
constexpr int64_t kSmallPlane = 4096;

// The same work with fewer and larger planes, if windows fill the axis H without an overlap and planes follow each
// other: a plane continues the one before.
AverageGradient Stacked(AverageGradient work) {
  Planes &grads = work.grad_output, &x = work.grad_input;
  const std::optional<WindowAxis>& window = work.common[0];
  if (!window || window->kernel != window->stride || window->padding != 0) return work;
  if (x.dims[1] % window->kernel != 0 || x.dims[1] / window->kernel != grads.dims[1]) return work;
  const auto follow = [](Planes& planes) {
    if (planes.dims[1] == 1) planes.strides[1] = planes.c_stride;
    return planes.dims[0] == 1 && planes.c_stride == planes.dims[1] * planes.strides[1];
  };
  for (; x.plane_size() < kSmallPlane && x.c % 2 == 0 && follow(grads) && follow(x);) {
    for (Planes* planes : {&grads, &x}) {
      planes->c /= 2;
      planes->c_stride *= 2;
      planes->dims[1] *= 2;
    }
  }
  for (auto next = static_cast<int64_t>(work.counts[1].size()); next < grads.dims[1]; ++next) {
    work.windows[1].spans.push_back({next * window->kernel, window->kernel});
    work.counts[1].push_back(work.counts[1].front());
  }
  return work;
}

template <typename ComputePlanes>
void ForPlanes(const AverageGradient& work, const ComputePlanes& compute) {
  ForRanges(work.grad_input.count(), work.grad_input.plane_size() + work.grad_output.plane_size(), compute);
}

template <typename T>
void AveragePlanes(const AverageGradient& work) {
  const AverageGradient flattened = Flattened(work);
  if (AverageGathers<T>::Takes(flattened)) {
    const AveragePlan<T> plan(flattened);
    const AverageGathers<T> gathers(plan);
    return ForPlanes(flattened, [&](int64_t begin, int64_t end) { gathers.Compute(begin, end); });
  }
  const AverageGradient stacked = Stacked(flattened);
  const AveragePlan<T> plan(stacked);
  if (stacked.common[0] && stacked.common[1]) {
    return ForPlanes(stacked, [&](int64_t begin, int64_t end) { AverageBlocks<T>(plan).Compute(begin, end); });
  }
  ForPlanes(stacked, [&](int64_t begin, int64_t end) { AverageRows<T>(plan).Compute(begin, end); });
}

}  // namespace

AverageGradientKernel FindAverageGradient(aclDataType values) {
  switch (values) {
    case ACL_FLOAT:
      return AveragePlanes<float>;
    case ACL_FLOAT16:
      return AveragePlanes<Float16>;
    case ACL_BF16:
      return AveragePlanes<BFloat16>;
    default:
      return nullptr;
  }
}

}  // namespace poolgrad::host
