// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/scatter_add.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>
#include <type_traits>
#include <vector>

#include "host/kernels/float_planes.h"
#include "host/kernels/parallel.h"

namespace poolgrad::host {
namespace {

// Sums planes in float: in place if they are contiguous planes of float, else in a buffer.
template <typename T>
class PlaneSums {
 public:
  explicit PlaneSums(const Planes& planes) : planes_(planes) {
    if (!std::is_same_v<T, float> || !planes.PlaneIsContiguous()) {
      sums_.resize(static_cast<size_t>(planes.plane_size()));
    }
  }

  // Returns the sums of a plane, all 0.
  float* Begin(int64_t plane) {
    if constexpr (std::is_same_v<T, float>) {
      if (sums_.empty()) {
        float* const sums = PlaneData<float>(planes_, plane);
        std::fill_n(sums, planes_.plane_size(), 0.0f);
        return sums;
      }
    }
    return sums_.data();
  }

  // Writes the rounded sums to the plane.
  void End(int64_t plane) {
    if (!sums_.empty()) WriteRoundedAndClear<T>(sums_.data(), planes_, plane);
  }

 private:
  const Planes& planes_;
  std::vector<float> sums_;  // 0 except between Begin and End
};

struct BadIndex {
  int64_t plane;
  int64_t position;  // in the plane of indices
  int64_t value;
};

// The number of gradients per step, which fit into the first-level cache.
constexpr int64_t kBlock = 256;

// Gradients and indices are prefetched this number of positions ahead, so that memory is busy while sums are added. For
// planes with fewer positions prefetching only costs time. In reverse, those of the plane before are next: hardware
// prefetches them in ascending order alone.
constexpr int64_t kAhead = 1024;

template <typename Element>
void Prefetch(const Element* from, int64_t count) {
  constexpr auto kLine = static_cast<int64_t>(64 / sizeof(Element));
  for (int64_t i = 0; i < count; i += kLine) __builtin_prefetch(from + i);
}

// The gradients as floats. Halves are converted into `floats`.
const float* AsFloats(const float* grad, int64_t /*count*/, float* /*floats*/) { return grad; }

template <typename T>
const float* AsFloats(const T* grad, int64_t count, float* floats) {
  Widen(grad, count, floats);
  return floats;
}

// Returns the position of the first index outside of [0, plane_size), where it stops, or `count`.
template <bool kReversed, typename Index>
int64_t ScatterBlock(const float* grad, const Index* indices, int64_t count, float* sums, int64_t plane_size) {
  constexpr int64_t kStep = kReversed ? -1 : 1;
  const int64_t end = kReversed ? -1 : count;
#pragma GCC unroll 4
  for (int64_t position = kReversed ? count - 1 : 0; position != end; position += kStep) {
    const int64_t index = indices[position];
    if (static_cast<uint64_t>(index) >= static_cast<uint64_t>(plane_size)) return position;
    sums[index] += grad[position];
  }
  return count;
}

// The same for a plane.
template <bool kReversed, typename T, typename Index>
int64_t ScatterPlane(const T* grad, const Index* indices, int64_t count, float* sums, int64_t plane_size) {
  std::array<float, kBlock> floats;
  for (int64_t done = 0; done < count; done += kBlock) {
    const int64_t size = std::min(kBlock, count - done);
    const int64_t begin = kReversed ? count - done - size : done;
    const int64_t next = kReversed ? begin - kAhead : begin + kAhead;
    if (kReversed ? count > kAhead : next < count) {
      Prefetch(indices + next, std::min(size, count - next));
      Prefetch(grad + next, std::min(size, count - next));
    }
    const float* const block = AsFloats(grad + begin, size, floats.data());
    const int64_t stopped = ScatterBlock<kReversed>(block, indices + begin, size, sums, plane_size);
    if (stopped < size) return begin + stopped;
  }
  return count;
}

bool Contains(const AxisSpans& axis, int64_t position, int64_t element) {
  const Span& span = axis.spans[static_cast<size_t>(position)];
  const int64_t distance = element - span.first;
  return distance >= 0 && distance % axis.step == 0 && distance / axis.step < span.count;
}

// Whether the element lies in the window of the position, both counted in row-major order in their planes.
bool IsInWindow(const ScatterAdd& work, int64_t position, int64_t element) {
  for (size_t axis = work.windows.size(); axis-- > 0;) {
    const int64_t positions = work.grad_output.dims[axis];
    const int64_t elements = work.grad_input.dims[axis];
    if (!Contains(work.windows[axis], position % positions, element % elements)) return false;
    position /= positions;
    element /= elements;
  }
  return true;
}

// The same with the order and the windows of `work`.
template <typename T, typename Index>
int64_t ScatterPlaneInWindows(const ScatterAdd& work, const T* grad, const Index* indices, float* sums) {
  const int64_t count = work.grad_output.plane_size();
  const int64_t plane_size = work.grad_input.plane_size();
  for (int64_t done = 0; done < count; ++done) {
    const int64_t position = work.reversed ? count - 1 - done : done;
    const int64_t index = indices[position];
    if (static_cast<uint64_t>(index) >= static_cast<uint64_t>(plane_size)) return position;
    if (IsInWindow(work, position, index)) sums[index] += ToFloat(grad[position]);
  }
  return count;
}

// Planes `begin` to `end` in the order of the sums, up to the first with a bad index.
template <typename T, typename Index>
std::optional<BadIndex> ScatterRange(const ScatterAdd& work, int64_t begin, int64_t end) {
  PlaneReader<T> grads(work.grad_output);
  PlaneReader<Index> indices(work.indices);
  PlaneSums<T> sums(work.grad_input);
  const auto scatter = work.reversed ? ScatterPlane<true, T, Index> : ScatterPlane<false, T, Index>;
  const int64_t count = work.grad_output.plane_size();
  for (int64_t done = begin; done < end; ++done) {
    const int64_t plane = work.reversed ? begin + end - 1 - done : done;
    const T* plane_grads = grads.Read(plane);
    const Index* plane_indices = indices.Read(plane);
    float* const plane_sums = sums.Begin(plane);
    const int64_t stopped = work.has_windows()
                                ? ScatterPlaneInWindows(work, plane_grads, plane_indices, plane_sums)
                                : scatter(plane_grads, plane_indices, count, plane_sums, work.grad_input.plane_size());
    if (stopped < count) return BadIndex{plane, stopped, plane_indices[stopped]};
    sums.End(plane);
  }
  return std::nullopt;
}

Status BadIndexStatus(const ScatterAdd& work, const BadIndex& bad) {
  const auto& [d, h, w] = work.indices.dims;
  const std::vector<int64_t> where = {bad.plane / work.indices.c, bad.plane % work.indices.c, bad.position / (h * w),
                                      bad.position / w % h, bad.position % w};
  return Fail(ACL_ERROR_RT_AICORE_EXCEPTION, "indices is ", bad.value, " at (n, c, d, h, w) = ", DimsText(where),
              ", outside of its plane: the planes of self have ", work.grad_input.plane_size(),
              " elements; indices count from 0 within one plane");
}

template <typename T, typename Index>
Status ScatterPlanes(const ScatterAdd& work) {
  std::mutex mutex;
  std::optional<BadIndex> first;  // in the order of the sums, so that the message does not depend on the threads
  const int64_t cost = work.grad_input.plane_size() + work.grad_output.plane_size();
  ForRanges(work.grad_input.count(), cost, [&](int64_t begin, int64_t end) {
    const std::optional<BadIndex> bad = ScatterRange<T, Index>(work, begin, end);
    const std::lock_guard lock(mutex);
    if (bad && (!first || (bad->plane < first->plane) != work.reversed)) first = bad;
  });
  return first ? BadIndexStatus(work, *first) : Status{};
}

struct KernelRow {
  aclDataType values;
  aclDataType indices;
  ScatterAddKernel kernel;
};

constexpr KernelRow kKernels[] = {
    {ACL_FLOAT, ACL_INT32, ScatterPlanes<float, int32_t>},
    {ACL_FLOAT, ACL_INT64, ScatterPlanes<float, int64_t>},
    {ACL_FLOAT16, ACL_INT32, ScatterPlanes<Float16, int32_t>},
    {ACL_FLOAT16, ACL_INT64, ScatterPlanes<Float16, int64_t>},
    {ACL_BF16, ACL_INT32, ScatterPlanes<BFloat16, int32_t>},
    {ACL_BF16, ACL_INT64, ScatterPlanes<BFloat16, int64_t>},
};

}  // namespace

ScatterAddKernel FindScatterAdd(aclDataType values, aclDataType indices) {
  for (const KernelRow& row : kKernels) {
    if (row.values == values && row.indices == indices) return row.kernel;
  }
  return nullptr;
}

}  // namespace poolgrad::host
