// SPDX-License-Identifier: Apache-2.0

// The kernel of every gradient of an average pool.
#ifndef POOLGRAD_HOST_KERNELS_AVERAGE_GRADIENT_H_
#define POOLGRAD_HOST_KERNELS_AVERAGE_GRADIENT_H_

#include <array>
#include <optional>
#include <vector>

#include "host/planes.h"
#include "host/window.h"

namespace poolgrad::host {

// How the term of a window is computed from its gradient g and its divisor d, in float: g / d, or g * (1 / d).
struct MeanArithmetic {
  bool divides = true;
  bool rounds_operand = false;  // d, or 1 / d, is rounded to the type of the gradients first
};

// The order in which the terms of an element are added, which is that of their windows.
enum class SumOrder {
  kRowMajor,
  kReversed,   // from the last window to the first
  kRowsFirst,  // the sums of rows of windows, which neighbors along H have in common; for windows of one size
};

// For each plane (n, c): each element of gradInput is the sum of the terms of all windows that contain it.
struct AverageGradient {
  Planes grad_output;
  Planes grad_input;
  std::array<AxisSpans, 3> windows = {};           // D, H, W; without dilation, and none is empty
  std::array<std::vector<double>, 3> counts = {};  // the number of elements that each window counts along the axis
  int64_t divisor = 0;                             // of all windows; 0: the product of the window's counts
  MeanArithmetic arithmetic = {};
  std::array<std::optional<WindowAxis>, 2> common = {};  // the size and distance of all windows along H, and along W
  SumOrder order = SumOrder::kRowMajor;
};

// The kernel for gradients of this type (FLOAT, FLOAT16, BF16: sums are float, rounded once at the end); null if there
// is none.
using AverageGradientKernel = void (*)(const AverageGradient& work);
AverageGradientKernel FindAverageGradient(aclDataType values);

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_KERNELS_AVERAGE_GRADIENT_H_
