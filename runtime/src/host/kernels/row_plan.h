// SPDX-License-Identifier: Apache-2.0

// The access of vectors to the windows along the rows of a plane.
#ifndef POOLGRAD_HOST_KERNELS_ROW_PLAN_H_
#define POOLGRAD_HOST_KERNELS_ROW_PLAN_H_

#include <optional>
#include <vector>

#include "host/kernels/simd/operations.h"
#include "host/window.h"

namespace poolgrad::host {

class RowPlan {
 public:
  // The plan for windows, none of them empty, along rows of `width` elements. nullopt if vectors would do more work
  // than a loop over elements: for few windows of which some are very long.
  static std::optional<RowPlan> Of(const AxisSpans& axis, int64_t width);

  simd::RowWindows windows() const;

 private:
  RowPlan(int64_t width, int64_t count) : width_(width), count_(count) {}

  void TakeStride(const WindowAxis& window);
  void TakeTable(const AxisSpans& axis, int64_t taps);
  int64_t SizeOfColumns() const;

  int64_t width_, count_;
  int64_t padding_ = 0, stride_ = 1;
  int64_t columns_size_ = 0, arranged_size_ = 0;
  std::vector<int32_t> source_;
  std::vector<int64_t> offsets_;
};

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_KERNELS_ROW_PLAN_H_
