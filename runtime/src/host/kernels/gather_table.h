// SPDX-License-Identifier: Apache-2.0

// Sums of elements of a row, arranged for vectors.
#ifndef POOLGRAD_HOST_KERNELS_GATHER_TABLE_H_
#define POOLGRAD_HOST_KERNELS_GATHER_TABLE_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "host/kernels/simd/operations.h"

namespace poolgrad::host {

// The places in a row of the addends of so many sums, `most` or fewer of each, in the order of the sum.
class Addends {
 public:
  Addends(int64_t most, int64_t sums) : most_(most) { places_.reserve(static_cast<size_t>(most * sums)); }

  void BeginSum() {
    places_.resize(places_.size() + static_cast<size_t>(most_), simd::kNoPlace);
    added_ = 0;
  }
  void Add(int64_t place) { *(places_.end() - most_ + added_++) = static_cast<int32_t>(place); }
  void ReverseSum() { std::reverse(places_.end() - most_, places_.end() - most_ + added_); }

  int64_t most() const { return most_; }
  int64_t sums() const { return static_cast<int64_t>(places_.size()) / most_; }
  int32_t Place(int64_t sum, int64_t i) const { return places_[static_cast<size_t>(sum * most_ + i)]; }

 private:
  int64_t most_;
  int64_t added_ = 0;  // to the last sum
  std::vector<int32_t> places_;
};

class GatherTable {
 public:
  // For the chosen vectors. Of consecutive sums, a vector has as many as its lanes hold if each of its addends is taken
  // from as many consecutive elements.
  explicit GatherTable(const Addends& addends);

  simd::Gather view() const {
    return {firsts_.data(), bases_.data(), places_.data(), static_cast<int64_t>(firsts_.size()), addends_};
  }

 private:
  int64_t addends_;  // of each sum
  std::vector<int64_t> firsts_, bases_;
  std::vector<int32_t> places_;
};

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_KERNELS_GATHER_TABLE_H_
