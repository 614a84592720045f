// SPDX-License-Identifier: Apache-2.0

#include "pools.h"

#include <algorithm>

namespace native {
namespace {

using Positions = std::vector<std::int64_t>;

// Windows start every `stride` elements from -padding on: in floor mode those that end within the padded axis, in ceil
// mode those before which something of it is left and which do not start in the padding at its end.
bool IsWindow(const Axis& axis, std::int64_t start, bool ceil_mode) {
  const std::int64_t extent = axis.dilation * (axis.kernel - 1) + 1;
  const std::int64_t end = axis.size + axis.padding;
  return ceil_mode ? start - axis.stride + extent < end && start < axis.size : start + extent <= end;
}

std::vector<Positions> Windows(const Axis& axis, bool ceil_mode) {
  std::vector<Positions> windows;
  for (std::int64_t start = -axis.padding; IsWindow(axis, start, ceil_mode); start += axis.stride) {
    Positions& inside = windows.emplace_back();
    for (std::int64_t i = 0; i < axis.kernel; ++i) {
      const std::int64_t position = start + i * axis.dilation;
      if (position >= 0 && position < axis.size) inside.push_back(position);
    }
  }
  return windows;
}

// Element e belongs to window o of `count` where both overlap on an axis of length 1.
std::vector<Positions> AdaptiveWindows(std::int64_t size, std::int64_t count) {
  std::vector<Positions> windows(static_cast<std::size_t>(count));
  for (std::int64_t o = 0; o < count; ++o) {
    for (std::int64_t e = 0; e < size; ++e) {
      if (e * count < (o + 1) * size && o * size < (e + 1) * count) windows[static_cast<std::size_t>(o)].push_back(e);
    }
  }
  return windows;
}

bool HasEmptyWindow(const Axis& axis) {
  return axis.windows.empty() ||
         std::any_of(axis.windows.begin(), axis.windows.end(), [](const Positions& window) { return window.empty(); });
}

Axis DrawAxis(Random& random, bool adaptive, bool ceil_mode, std::int64_t dilation) {
  while (true) {
    Axis axis{random.Between(1, 9)};
    if (adaptive) {
      axis.windows = AdaptiveWindows(axis.size, random.Between(1, axis.size));
    } else {
      axis.kernel = random.Between(1, 4);
      axis.stride = random.Between(1, 3);
      axis.padding = random.Between(0, axis.kernel / 2);
      axis.dilation = random.Between(1, dilation);
      axis.windows = Windows(axis, ceil_mode);
    }
    axis.pooled = static_cast<std::int64_t>(axis.windows.size());
    if (!HasEmptyWindow(axis)) return axis;
  }
}

std::int64_t Product(const std::vector<Axis>& axes, std::int64_t Axis::* size) {
  std::int64_t product = 1;
  for (const Axis& axis : axes) product *= axis.*size;
  return product;
}

// The elements, counted in their plane, of a window, counted in its own, in row-major order.
Positions ElementsOf(const Pool& pool, std::int64_t window) {
  Positions elements = {0};
  std::int64_t windows = pool.pooled_size();
  for (const Axis& axis : pool.axes) {
    windows /= axis.pooled;
    const Positions& along = axis.windows[static_cast<std::size_t>(window / windows)];
    window %= windows;
    Positions next;
    for (const std::int64_t element : elements) {
      for (const std::int64_t position : along) next.push_back(element * axis.size + position);
    }
    elements = std::move(next);
  }
  return elements;
}

}  // namespace

std::uint64_t Random::Next() {
  std::uint64_t mixed = state_ += 0x9e3779b97f4a7c15u;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
  return mixed ^ (mixed >> 31);
}

std::int64_t Random::Between(std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(Next() % static_cast<std::uint64_t>(high - low + 1));
}

std::int64_t Pool::plane_size() const { return Product(axes, &Axis::size); }

std::int64_t Pool::pooled_size() const { return Product(axes, &Axis::pooled); }

std::vector<std::int64_t> Pool::Dims(std::int64_t Axis::* size) const {
  std::vector<std::int64_t> dims = {n, c};
  for (const Axis& axis : axes) dims.push_back(axis.*size);
  return dims;
}

std::vector<std::int64_t> Pool::List(std::int64_t Axis::* value) const {
  std::vector<std::int64_t> list;
  for (const Axis& axis : axes) list.push_back(axis.*value);
  return list;
}

std::string Pool::Text() const {
  std::string text = std::string(format->name) + (adaptive ? " adaptive" : "") + (ceil_mode ? " ceil" : "") +
                     " n=" + std::to_string(n) + " c=" + std::to_string(c);
  for (const Axis& axis : axes) {
    text += " size=" + std::to_string(axis.size) + " kernel=" + std::to_string(axis.kernel) +
            " stride=" + std::to_string(axis.stride) + " padding=" + std::to_string(axis.padding) +
            " dilation=" + std::to_string(axis.dilation) + " pooled=" + std::to_string(axis.pooled);
  }
  return text;
}

Pool DrawPool(Random& random, std::int64_t dilation) {
  Pool pool{&kFormats[random.Between(0, 2)],
            random.Between(0, 3) == 0,
            random.Between(0, 1) == 1,
            random.Between(1, 3),
            random.Between(1, 4),
            {}};
  const std::int64_t axes = random.Between(2, 3);
  for (std::int64_t axis = 0; axis < axes; ++axis) {
    pool.axes.push_back(DrawAxis(random, pool.adaptive, pool.ceil_mode, dilation));
  }
  return pool;
}

Pool LargePool(const Format& format) {
  Axis axis{128, 3, 2, 1, 1};
  axis.windows = Windows(axis, false);
  axis.pooled = static_cast<std::int64_t>(axis.windows.size());
  return {&format, false, false, 2, 16, {axis, axis}};
}

Bits DrawValues(Random& random, const Pool& pool) {
  const Format& format = *pool.format;
  Bits values(static_cast<std::size_t>(pool.planes() * pool.plane_size()));
  for (std::uint32_t& value : values) {
    const std::int64_t drawn = random.Between(0, 31);
    const std::uint32_t sign = random.Between(0, 1) == 1 ? format.sign_bit() : 0;
    if (drawn == 31) {
      value = sign | format.quiet_nan();
    } else if (drawn == 30) {
      value = sign | format.infinity();
    } else {
      value = sign | Encode(format, static_cast<double>(drawn / 4));
    }
  }
  return values;
}

Bits DrawGradients(Random& random, const Pool& pool) {
  const Format& format = *pool.format;
  Bits gradients(static_cast<std::size_t>(pool.planes() * pool.pooled_size()));
  for (std::uint32_t& gradient : gradients) {
    const double significand = std::ldexp(static_cast<double>(random.Between(-(1 << 24), 1 << 24)), -24);
    // In float16 the sums reach from subnormals to infinity.
    gradient = Encode(format, std::ldexp(significand, static_cast<int>(random.Between(-20, 16))));
    if ((gradient & ~format.sign_bit()) == format.infinity()) --gradient;
  }
  return gradients;
}

std::vector<std::int64_t> Argmax(const Pool& pool, const Bits& x) {
  std::vector<std::int64_t> argmax;
  for (std::int64_t plane = 0; plane < pool.planes(); ++plane) {
    const std::uint32_t* values = x.data() + plane * pool.plane_size();
    for (std::int64_t window = 0; window < pool.pooled_size(); ++window) {
      std::int64_t best = -1;
      double maximum = 0;
      for (const std::int64_t element : ElementsOf(pool, window)) {
        const double value = Decode(*pool.format, values[element]);
        if (best >= 0 && !(value > maximum) && !std::isnan(value)) continue;
        best = element;
        maximum = value;
      }
      argmax.push_back(best);
    }
  }
  return argmax;
}

Bits Gradient(const Pool& pool, const Bits& grad, const std::vector<std::int64_t>& argmax) {
  std::vector<float> sums(static_cast<std::size_t>(pool.planes() * pool.plane_size()));
  for (std::size_t i = 0; i < grad.size(); ++i) {
    const std::int64_t plane = static_cast<std::int64_t>(i) / pool.pooled_size();
    sums[static_cast<std::size_t>(plane * pool.plane_size() + argmax[i])] +=
        static_cast<float>(Decode(*pool.format, grad[i]));
  }
  Bits bits;
  for (const float sum : sums) bits.push_back(Encode(*pool.format, sum));
  return bits;
}

}  // namespace native
