// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/gather_table.h"

#include "host/kernels/term_rows.h"

namespace poolgrad::host {
namespace {

// Consecutive sums, and the places of each of their addends: from the first to the last that is used.
class VectorOfSums {
 public:
  VectorOfSums(const Addends& addends, int64_t lanes) : addends_(addends), lanes_(lanes) {
    places_.resize(static_cast<size_t>(addends.most()));
  }

  void Clear(int64_t first) {
    sums_ = {first, first};
    std::fill(places_.begin(), places_.end(), Range{});
  }

  // Adds a sum, which is next to the others, if there is room for it.
  bool Takes(int64_t sum) {
    if (sums_.count() == lanes_) return false;
    for (int64_t i = 0; i < addends_.most(); ++i) {
      if (WithPlace(sum, i).count() > lanes_) return false;
    }
    for (int64_t i = 0; i < addends_.most(); ++i) places_[static_cast<size_t>(i)] = WithPlace(sum, i);
    sums_ = {std::min(sums_.first, sum), std::max(sums_.end, sum + 1)};
    return true;
  }

  Range sums() const { return sums_; }
  int64_t Base(int64_t i) const { return places_[static_cast<size_t>(i)].first; }

 private:
  Range WithPlace(int64_t sum, int64_t i) const {
    const int64_t place = addends_.Place(sum, i);
    const Range& range = places_[static_cast<size_t>(i)];
    if (place == simd::kNoPlace) return range;
    if (range.count() == 0) return {place, place + 1};
    return {std::min(range.first, place), std::max(range.end, place + 1)};
  }

  const Addends& addends_;
  int64_t lanes_;
  Range sums_ = {};
  std::vector<Range> places_;
};

}  // namespace

GatherTable::GatherTable(const Addends& addends) : addends_(addends.most()) {
  const int64_t lanes = simd::Vectors().lanes;
  VectorOfSums vector(addends, lanes);
  for (int64_t next = 0; next < addends.sums();) {
    vector.Clear(next);
    while (next < addends.sums() && vector.Takes(next)) ++next;
    // A whole vector at the end overlaps the one before.
    while (next == addends.sums() && vector.sums().first > 0 && vector.Takes(vector.sums().first - 1)) continue;
    firsts_.push_back(vector.sums().first);
    for (int64_t i = 0; i < addends_; ++i) {
      bases_.push_back(vector.Base(i));
      for (int64_t sum = vector.sums().first; sum < vector.sums().first + lanes; ++sum) {
        const int32_t place = sum < vector.sums().end ? addends.Place(sum, i) : simd::kNoPlace;
        places_.push_back(place == simd::kNoPlace ? place : place - static_cast<int32_t>(vector.Base(i)));
      }
    }
  }
}

}  // namespace poolgrad::host
