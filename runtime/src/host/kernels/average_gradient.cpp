// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/average_gradient.h"

#include <algorithm>
#include <limits>
#include <map>

#include "host/kernels/float_planes.h"
#include "host/kernels/parallel.h"
#include "host/kernels/term_rows.h"

namespace poolgrad::host {
namespace {

using simd::kMostLanes;

simd::SumRows<float> VectorSum(float /*of*/) { return simd::Vectors().sum_float; }
simd::SumRows<Float16> VectorSum(Float16 /*of*/) { return simd::Vectors().sum_float16; }
simd::SumRows<BFloat16> VectorSum(BFloat16 /*of*/) { return simd::Vectors().sum_bfloat16; }

// The gradients as floats. Halves are converted into `floats`.
const float* AsFloats(const float* grads, int64_t /*count*/, float* /*floats*/) { return grads; }

template <typename T>
const float* AsFloats(const T* grads, int64_t count, float* floats) {
  Widen(grads, count, floats);
  return floats;
}

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
    work.row_window.reset();
  }
  return work;
}

// What the planes have in common.
template <typename T>
struct Plan {
  explicit Plan(const AverageGradient& average)
      : work(average),
        depths(WindowsOfElements(work.windows[0], work.grad_input.dims[0])),
        heights(WindowsOfElements(work.windows[1], work.grad_input.dims[1])),
        most_depths(LargestCount(depths)),
        most_heights(LargestCount(heights)),
        terms(TermRows::Of(work.windows[2], work.grad_input.dims[2], work.row_window)) {
    int64_t d = 0;
    for (const double depth : work.counts[0]) {
      int64_t h = 0;
      for (const double height : work.counts[1]) {
        operands.push_back(&OperandsOf(depth * height));
        slots.push_back(static_cast<size_t>(d % most_depths * most_heights + h++ % most_heights));
      }
      ++d;
    }
  }

  const AverageGradient& work;
  std::vector<Range> depths;  // the windows of each element along D
  std::vector<Range> heights;
  int64_t most_depths, most_heights;
  TermRows terms;
  std::vector<const std::vector<float>*> operands;  // of each row of windows
  std::vector<size_t> slots;  // likewise: where its terms are kept; rows that contain the same element differ in it

 private:
  float OperandOf(double divisor) const {
    const auto number = static_cast<float>(std::min<double>(divisor, std::numeric_limits<float>::max()));
    const float operand = work.arithmetic.divides ? number : 1.0f / number;
    return work.arithmetic.rounds_operand ? ToFloat(FromFloat<T>(operand)) : operand;
  }

  // Those of a row of windows that count so many elements along D and H.
  const std::vector<float>& OperandsOf(double counted) {
    std::vector<float>& row = operands_[work.divisor == 0 ? counted : 1];
    if (!row.empty()) return row;
    for (const double width : work.counts[2]) {
      row.push_back(OperandOf(work.divisor == 0 ? counted * width : static_cast<double>(work.divisor)));
    }
    return row;
  }

  std::map<double, std::vector<float>> operands_;
};

// Computes planes row by row of x. The terms of the rows of windows that contain a row of x are kept for the next row.
template <typename T>
class PlaneRows {
 public:
  explicit PlaneRows(const Plan<T>& plan)
      : plan_(plan),
        terms_(plan.terms),
        reader_(plan.work.grad_output),
        floats_(Size(plan.work.grad_output.dims[2])),
        pitch_(plan.work.grad_input.dims[2] + kMostLanes),
        slots_(Size(plan.most_depths * plan.most_heights)),
        row_(Size(pitch_)),
        residues_(terms_.stride > 1 ? Size(pitch_) : 0),
        sum_(VectorSum(T{})) {
    for (Slot& slot : slots_)
      slot.floats.resize(Size(terms_.size + static_cast<int64_t>(terms_.tables.size()) * pitch_));
  }

  void Compute(int64_t plane) {
    grads_ = reader_.Read(plane);
    for (Slot& slot : slots_) slot.row = -1;
    const Planes& x = plan_.work.grad_input;
    T* const data = PlaneData<T>(x, plane);
    for (int64_t d = 0; d < x.dims[0]; ++d) {
      for (int64_t h = 0; h < x.dims[1]; ++h) {
        ListRows(plan_.depths[static_cast<size_t>(d)], plan_.heights[static_cast<size_t>(h)]);
        ComputeRow(data + d * x.strides[0] + h * x.strides[1], x.dims[2], x.strides[2]);
      }
    }
  }

 private:
  struct Slot {
    int64_t row = -1;
    std::vector<float> floats;  // the terms, then their copies by table
  };

  static size_t Size(int64_t count) { return static_cast<size_t>(count); }

  // The terms of row (d, h) of windows.
  const float* TermsOf(int64_t d, int64_t h) {
    const auto& [depth, height, width] = plan_.work.grad_output.dims;
    const int64_t row = d * height + h;
    Slot& slot = slots_[plan_.slots[Size(row)]];
    float* const terms = slot.floats.data();
    if (slot.row == row) return terms;
    slot.row = row;
    const simd::Operations& vectors = simd::Vectors();
    const float* const grads = AsFloats(grads_ + row * width, width, floats_.data());
    const auto combine = plan_.work.arithmetic.divides ? vectors.divide : vectors.multiply;
    combine(grads, plan_.operands[Size(row)]->data(), width, terms + terms_.begin);
    float* copy = terms + terms_.size;
    for (const std::vector<int32_t>& table : terms_.tables) {
      vectors.gather(terms, table.data(), static_cast<int64_t>(table.size()), copy);
      copy += pitch_;
    }
    return terms;
  }

  // The rows of windows that contain a row of x, in the order of the sum.
  void ListRows(Range depths, Range heights) {
    windows_.clear();
    for (int64_t d = depths.first; d < depths.end; ++d) {
      for (int64_t h = heights.first; h < heights.end; ++h) windows_.push_back(TermsOf(d, h));
    }
    if (plan_.work.reversed) std::reverse(windows_.begin(), windows_.end());
  }

  void ComputeRow(T* to, int64_t width, int64_t stride) {
    if (stride == 1 || width == 1) return SumRow(to, width);
    SumRow(row_.data(), width);
    for (int64_t i = 0; i < width; ++i) to[i * stride] = row_[Size(i)];
  }

  void SumRow(T* to, int64_t width) {
    if (terms_.stride == 0)
      return SumAt({terms_.size, 0}, static_cast<int64_t>(terms_.tables.size()), pitch_, width, to);
    if (terms_.stride == 1) return SumShifts(terms_.shifts[0], width, to);
    for (int64_t r = 0; r < std::min(terms_.stride, width); ++r) {
      const int64_t count = (width - 1 - r) / terms_.stride + 1;
      SumShifts(terms_.shifts[Size(r)], count, residues_.data());
      for (int64_t q = 0; q < count; ++q) to[q * terms_.stride + r] = residues_[Size(q)];
    }
  }

  void SumShifts(Range shifts, int64_t width, T* to) { SumAt(shifts, shifts.count(), 1, width, to); }

  // Sums `count` addends of each row of windows, which are `pitch` floats apart.
  void SumAt(Range positions, int64_t count, int64_t pitch, int64_t width, T* to) {
    addends_.clear();
    for (const float* terms : windows_) {
      for (int64_t i = 0; i < count; ++i) {
        addends_.push_back(terms + positions.first + (plan_.work.reversed ? count - 1 - i : i) * pitch);
      }
    }
    sum_(addends_.data(), static_cast<int64_t>(addends_.size()), width, to);
  }

  const Plan<T>& plan_;
  const TermRows& terms_;
  PlaneReader<T> reader_;
  const T* grads_ = nullptr;
  std::vector<float> floats_;
  int64_t pitch_;
  std::vector<Slot> slots_;
  std::vector<T> row_, residues_;
  simd::SumRows<T> sum_;
  std::vector<const float*> windows_, addends_;
};

template <typename T>
void AveragePlanes(const AverageGradient& work) {
  const AverageGradient flattened = Flattened(work);
  const Plan<T> plan(flattened);
  const int64_t cost = work.grad_input.plane_size() + work.grad_output.plane_size();
  ForRanges(work.grad_input.count(), cost, [&](int64_t begin, int64_t end) {
    PlaneRows<T> rows(plan);
    for (int64_t plane = begin; plane < end; ++plane) rows.Compute(plane);
  });
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
