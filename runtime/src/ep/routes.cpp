// SPDX-License-Identifier: Apache-2.0

#include "ep/routes.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace poolgrad::ep {
namespace {

using aclnn::Entry;
using aclnn::Product;

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kInt32 = std::numeric_limits<std::int32_t>::max();
// The kernel of Atlas A2 and A3 compares positions as float32, which holds integers up to 2^24.
constexpr std::int64_t kFloat32Integers = std::int64_t{1} << 24;

// CANN documentation of aclnnMaxPool3dWithArgmax, aclnnMaxPool2dWithIndices, aclnnAdaptiveMaxPool{2,3}d and their
// Backward functions. On Atlas A2 and A3 the gradient of the 2-D max pool uses the 3-D entry, which accepts float16 and
// bfloat16 there; the 2-D gradient does not. The pool itself accepts them in both entries. The gradient of the 2-D
// adaptive pool casts int64 indices to int32 on every product. The 2-D adaptive pool returns int64 only; the 3-D one
// returns int32 only on A2 and A3. The gradients of average pools over one or two axes use the 2-D entries on every
// product, as torch_npu does.
constexpr Route kRoutes[] = {
    {"MaxPool3DGradWithArgmax", Product::kAscend950, 3, 5, Entry::kMaxPool3dWithArgmaxBackward, IndexTypes::kBoth, true,
     kUnlimited, kUnlimited},
    {"MaxPool3DGradWithArgmax", Product::kAtlasA2A3, 3, 5, Entry::kMaxPool3dWithArgmaxBackward, IndexTypes::kInt32,
     true, kInt32, kInt32},
    {"MaxPoolGradWithArgmaxV3", Product::kAscend950, 4, 4, Entry::kMaxPool2dWithIndicesBackward, IndexTypes::kBoth,
     true, kUnlimited, kUnlimited},
    {"MaxPoolGradWithArgmaxV3", Product::kAtlasA2A3, 4, 4, Entry::kMaxPool3dWithArgmaxBackward, IndexTypes::kInt32,
     true, kInt32, kInt32},
    {"AdaptiveMaxPool3DGrad", Product::kAscend950, 3, 4, Entry::kAdaptiveMaxPool2dBackward, IndexTypes::kBoth, true,
     kInt32, kInt32},
    {"AdaptiveMaxPool3DGrad", Product::kAscend950, 5, 5, Entry::kAdaptiveMaxPool3dBackward, IndexTypes::kBoth, true,
     kUnlimited, kUnlimited},
    {"AdaptiveMaxPool3DGrad", Product::kAtlasA2A3, 3, 4, Entry::kAdaptiveMaxPool2dBackward, IndexTypes::kBoth, true,
     kInt32, kFloat32Integers},
    {"AdaptiveMaxPool3DGrad", Product::kAtlasA2A3, 5, 5, Entry::kAdaptiveMaxPool3dBackward, IndexTypes::kInt32, true,
     kInt32, kFloat32Integers},
    {"MaxPool3DWithArgmaxV2", Product::kAscend950, 3, 5, Entry::kMaxPool3dWithArgmax, IndexTypes::kBoth, true,
     kUnlimited, kUnlimited},
    {"MaxPool3DWithArgmaxV2", Product::kAtlasA2A3, 3, 5, Entry::kMaxPool3dWithArgmax, IndexTypes::kInt32, false, kInt32,
     kInt32},
    {"MaxPoolWithArgmaxV3", Product::kAscend950, 4, 4, Entry::kMaxPool2dWithIndices, IndexTypes::kBoth, true,
     kUnlimited, kUnlimited},
    {"MaxPoolWithArgmaxV3", Product::kAtlasA2A3, 4, 4, Entry::kMaxPool2dWithIndices, IndexTypes::kBoth, false, kInt32,
     kInt32},
    {"AdaptiveMaxPool3d", Product::kAscend950, 3, 5, Entry::kAdaptiveMaxPool3d, IndexTypes::kBoth, true, kUnlimited,
     kUnlimited},
    {"AdaptiveMaxPool3d", Product::kAtlasA2A3, 3, 5, Entry::kAdaptiveMaxPool3d, IndexTypes::kInt32, true, kInt32,
     kInt32},
    {"AdaptiveMaxPool3d", Product::kAtlasA2A3, 3, 4, Entry::kAdaptiveMaxPool2d, IndexTypes::kInt64, true, kInt32,
     kInt32},
    {"AvgPool3DGrad", Product::kAscend950, 3, 4, Entry::kAvgPool2dBackward, IndexTypes::kNone, false, kInt32, kInt32},
    {"AvgPool3DGrad", Product::kAscend950, 5, 5, Entry::kAvgPool3dBackward, IndexTypes::kNone, false, kUnlimited,
     kUnlimited, 72},
    {"AvgPoolV2Grad", Product::kAscend950, 4, 4, Entry::kAvgPool2dBackward, IndexTypes::kNone, false, kInt32, kInt32},
    {"AdaptiveAvgPool3dGrad", Product::kAscend950, 3, 4, Entry::kAdaptiveAvgPool2dBackward, IndexTypes::kNone, false,
     kUnlimited, kUnlimited},
    {"AdaptiveAvgPool3dGrad", Product::kAscend950, 5, 5, Entry::kAdaptiveAvgPool3dBackward, IndexTypes::kNone, false,
     kUnlimited, kUnlimited},
    {"AdaptiveAvgPool2dGrad", Product::kAscend950, 4, 4, Entry::kAdaptiveAvgPool2dBackward, IndexTypes::kNone, false,
     kUnlimited, kUnlimited},
    {"AvgPool3DGrad", Product::kAtlasA2A3, 3, 4, Entry::kAvgPool2dBackward, IndexTypes::kNone, false, kInt32, kInt32,
     48},
    {"AvgPool3DGrad", Product::kAtlasA2A3, 5, 5, Entry::kAvgPool3dBackward, IndexTypes::kNone, false, kUnlimited,
     kUnlimited, 48},
    {"AvgPoolV2Grad", Product::kAtlasA2A3, 4, 4, Entry::kAvgPool2dBackward, IndexTypes::kNone, false, kInt32, kInt32,
     48},
    {"AdaptiveAvgPool3dGrad", Product::kAtlasA2A3, 3, 4, Entry::kAdaptiveAvgPool2dBackward, IndexTypes::kNone, false,
     kUnlimited, kUnlimited},
    {"AdaptiveAvgPool3dGrad", Product::kAtlasA2A3, 5, 5, Entry::kAdaptiveAvgPool3dBackward, IndexTypes::kNone, false,
     kUnlimited, kUnlimited},
    {"AdaptiveAvgPool2dGrad", Product::kAtlasA2A3, 4, 4, Entry::kAdaptiveAvgPool2dBackward, IndexTypes::kNone, false,
     kUnlimited, kUnlimited},
};

bool Takes(IndexTypes types, bool is_int64) {
  return types == IndexTypes::kBoth || types == IndexTypes::kNone || (types == IndexTypes::kInt64) == is_int64;
}

}  // namespace

const Route* FindRoute(const DialectOp& op, Product product, std::size_t rank, bool argmax_is_int64) {
  for (const Route& route : kRoutes) {
    if (std::strcmp(route.op, op.name) == 0 && route.product == product && route.min_rank <= rank &&
        rank <= route.max_rank && Takes(route.index_types, argmax_is_int64)) {
      return &route;
    }
  }
  return nullptr;
}

std::vector<Entry> EntriesOf(const DialectOp& op, Product product) {
  std::vector<Entry> entries;
  for (const Route& route : kRoutes) {
    const bool is_new = std::find(entries.begin(), entries.end(), route.entry) == entries.end();
    if (std::strcmp(route.op, op.name) == 0 && route.product == product && is_new) entries.push_back(route.entry);
  }
  return entries;
}

}  // namespace poolgrad::ep
