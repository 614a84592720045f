// SPDX-License-Identifier: Apache-2.0

// Values drawn from the bytes of an input; when they end, everything is zero.
#ifndef POOLGRAD_FUZZ_BYTES_H_
#define POOLGRAD_FUZZ_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace poolgrad::fuzz {

constexpr std::int64_t kEdges[] = {
    -1,
    std::int64_t{1} << 24,
    std::numeric_limits<std::int32_t>::max(),
    std::int64_t{1} << 31,
    std::int64_t{1} << 48,
    (std::int64_t{1} << 48) + 1,
    std::numeric_limits<std::int64_t>::max() / 2,
    std::numeric_limits<std::int64_t>::max(),
    std::numeric_limits<std::int64_t>::min(),
};

class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : next_(data), end_(data + size) {}

  std::uint8_t Byte() { return next_ == end_ ? std::uint8_t{0} : *next_++; }
  std::size_t Below(std::size_t limit) { return Byte() % limit; }
  bool OneIn(std::size_t count) { return Below(count) == count - 1; }

  // Mostly small and positive, now and then an end of some range or anything.
  std::int64_t Number() {
    const std::uint8_t kind = Byte();
    if (kind < 220) return kind % 11;
    if (kind < 250) return kEdges[kind % (sizeof kEdges / sizeof *kEdges)];
    std::uint64_t any = 0;
    for (int i = 0; i < 8; ++i) any = any << 8 | Byte();
    return static_cast<std::int64_t>(any);
  }

  std::vector<std::int64_t> Numbers(std::size_t count) {
    std::vector<std::int64_t> numbers(count);
    for (std::int64_t& number : numbers) number = Number();
    return numbers;
  }

 private:
  const std::uint8_t* next_;
  const std::uint8_t* end_;
};

}  // namespace poolgrad::fuzz

#endif  // POOLGRAD_FUZZ_BYTES_H_
