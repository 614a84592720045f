// SPDX-License-Identifier: Apache-2.0

// The gradient of an average pool with any windows over small planes: a table finds the terms of each element.
#ifndef POOLGRAD_HOST_KERNELS_AVERAGE_GATHERS_H_
#define POOLGRAD_HOST_KERNELS_AVERAGE_GATHERS_H_

#include <algorithm>
#include <vector>

#include "host/kernels/average_plan.h"
#include "host/kernels/gather_table.h"

namespace poolgrad::host {

template <typename T>
class AverageGathers {
 public:
  explicit AverageGathers(const AveragePlan<T>& plan)
      : plan_(plan),
        grads_(plan.work.grad_output),
        x_(plan.work.grad_input),
        operands_(plan.Operands()),
        block_operands_(kBlock, operands_.data()),
        table_(AddendsOf(plan)) {}

  // Whether this is the fastest: there are planes enough for a table, it fits into the first-level cache, and rows are
  // too short for vectors of their own, or nothing is added.
  static bool Takes(const AverageGradient& work) {
    const Planes& x = work.grad_input;
    if (x.count() < kLeastPlanes || x.plane_size() > kMostPlaces || !x.PlaneIsContiguous()) return false;
    const int64_t most = MostWindows(work);
    if (most == 1) return true;
    return most <= simd::kMostAddends && x.dims[2] < simd::kMostLanes && x.plane_size() * most <= kMostPlaces &&
           work.order != SumOrder::kRowsFirst;
  }

  void Compute(int64_t begin, int64_t end) const {
    const int64_t windows = grads_.plane_size(), size = x_.plane_size();
    const int64_t block = PlanesFollow(grads_) && PlanesFollow(x_) ? kBlock : 1;
    PlaneReader<T> reader(grads_);
    std::vector<float> terms(static_cast<size_t>(block * windows + simd::kMostLanes));
    for (int64_t plane = begin; plane < end; plane += block) {
      const int64_t count = std::min(block, end - plane);
      const simd::Terms<T> rows = {reader.Read(plane),
                                   (count - 1) * windows + reader.Readable(plane + count - 1),
                                   block_operands_.data(),
                                   plan_.work.arithmetic.divides,
                                   count,
                                   windows};
      AverageVectors(T{}).terms(rows, windows, terms.data());
      T* const to = PlaneData<T>(x_, plane);
      AverageVectors(T{}).gather(table_.view(), {terms.data(), count, windows}, to, size);
    }
  }

 private:
  static constexpr int64_t kMostPlaces = 4096;
  static constexpr int64_t kLeastPlanes = 64;

  // The planes at once: what one step writes has left the store buffer before the next reads it.
  static constexpr int64_t kBlock = 16;

  static bool PlanesFollow(const Planes& planes) {
    return planes.PlaneIsContiguous() && planes.c_stride == planes.plane_size() &&
           (planes.n == 1 || planes.n_stride == planes.c * planes.c_stride);
  }

  // Of an element of x.
  static int64_t MostWindows(const AverageGradient& work) {
    int64_t most = 1;
    for (size_t axis = 0; axis < 3; ++axis) {
      most *= std::max<int64_t>(LargestCount(WindowsOfElements(work.windows[axis], work.grad_input.dims[axis])), 1);
    }
    return most;
  }

  static Addends AddendsOf(const AveragePlan<T>& plan) {
    const AverageGradient& work = plan.work;
    const auto& counts = work.grad_output.dims;
    const std::vector<Range> heights = WindowsOfElements(work.windows[1], work.grad_input.dims[1]);
    const std::vector<Range> widths = WindowsOfElements(work.windows[2], work.grad_input.dims[2]);
    Addends addends(MostWindows(work), work.grad_input.plane_size());
    for (const Range& depth : plan.depths) {
      for (const Range& height : heights) {
        for (const Range& width : widths) {
          addends.BeginSum();
          for (int64_t d = depth.first; d < depth.end; ++d) {
            for (int64_t h = height.first; h < height.end; ++h) {
              for (int64_t w = width.first; w < width.end; ++w) addends.Add((d * counts[1] + h) * counts[2] + w);
            }
          }
          if (work.order == SumOrder::kReversed) addends.ReverseSum();
        }
      }
    }
    return addends;
  }

  const AveragePlan<T>& plan_;
  const Planes &grads_, &x_;
  std::vector<float> operands_;  // of the windows of a plane
  std::vector<const float*> block_operands_;
  GatherTable table_;
};

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_KERNELS_AVERAGE_GATHERS_H_
