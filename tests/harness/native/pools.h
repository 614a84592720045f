// SPDX-License-Identifier: Apache-2.0

// Random pools, and their values, indices and gradients by the definitions.
#ifndef POOLGRAD_TESTS_NATIVE_POOLS_H_
#define POOLGRAD_TESTS_NATIVE_POOLS_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "floats.h"

namespace native {

// The same numbers on every machine: splitmix64.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t Next();
  std::int64_t Between(std::int64_t low, std::int64_t high);  // both included

 private:
  std::uint64_t state_;
};

// A pooling window along one axis.
struct Axis {
  std::int64_t size;
  std::int64_t kernel = 1, stride = 1, padding = 0, dilation = 1;
  std::int64_t pooled = 0;                              // the number of windows
  std::vector<std::vector<std::int64_t>> windows = {};  // the elements of each that lie inside, in order
};

struct Pool {
  const Format* format;
  bool adaptive;
  bool ceil_mode;
  std::int64_t n, c;
  std::vector<Axis> axes;  // (H, W) or (D, H, W)

  std::int64_t planes() const { return n * c; }
  std::int64_t plane_size() const;
  std::int64_t pooled_size() const;
  std::vector<std::int64_t> Dims(std::int64_t Axis::* size) const;  // n, c, and a size of each axis
  std::vector<std::int64_t> List(std::int64_t Axis::* value) const;
  std::string Text() const;
};

// A pool whose windows all have an element, dilated up to `dilation`.
Pool DrawPool(Random& random, std::int64_t dilation);

// One of several planes of 128 by 128, which are worth threads.
Pool LargePool(const Format& format);

// Elements as bits, planes one after the other.
using Bits = std::vector<std::uint32_t>;

// Values to pool: few distinct ones, so that there are ties, with zeros of both signs, infinities and NaN.
Bits DrawValues(Random& random, const Pool& pool);

// Incoming gradients: finite, of many exponents.
Bits DrawGradients(Random& random, const Pool& pool);

// For each window the element of its plane that is its maximum: the first of equal ones, but the last NaN before all.
std::vector<std::int64_t> Argmax(const Pool& pool, const Bits& x);

// The gradient: sums in float in the order of the windows, rounded once.
Bits Gradient(const Pool& pool, const Bits& grad, const std::vector<std::int64_t>& argmax);

}  // namespace native

#endif  // POOLGRAD_TESTS_NATIVE_POOLS_H_
