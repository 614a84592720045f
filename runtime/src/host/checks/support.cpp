// SPDX-License-Identifier: Apache-2.0

#include "host/checks/support.h"

namespace poolgrad::host {
namespace {

constexpr DtypeSet kFloats = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16};
constexpr DtypeSet kFloatsDouble = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16, ACL_DOUBLE};
constexpr DtypeSet kFloat = {ACL_FLOAT};
constexpr DtypeSet kInt32 = {ACL_INT32};
constexpr DtypeSet kInt64 = {ACL_INT64};
constexpr DtypeSet kInt32Int64 = {ACL_INT32, ACL_INT64};
// Phase 1 accepts INT8, but no kernel supports it: phase 2 fails.
constexpr DtypeSet kInt32Int8 = {ACL_INT32, ACL_INT8};

struct Row {
  Api api;
  AclnnProduct product;
  Support support;
};

// aclnnAdaptiveMaxPool3dBackward accepts INT64 indices in its table, and refuses them outside of Ascend950 in its last
// check. aclnnAdaptiveMaxPool2d also exists on Ascend910; it has no row here, because no other function of this library
// exists there. It passes DOUBLE to an AICPU kernel, which this library lacks: phase 2 fails. The same holds for the
// gradients of average pools of two axes and of adaptive ones: Ascend910 and Ascend310P have them too.
constexpr Row kRows[] = {
    {Api::kMaxPool3dWithArgmax, AclnnProduct::kAscend950, {kFloats, kInt32Int64}},
    {Api::kMaxPool3dWithArgmax, AclnnProduct::kAtlasA2A3, {kFloats, kInt32}},
    {Api::kMaxPool2dWithIndices, AclnnProduct::kAscend950, {kFloats, kInt32Int64}},
    {Api::kMaxPool2dWithIndices, AclnnProduct::kAtlasA2A3, {kFloats, kInt32Int64}},
    {Api::kAdaptiveMaxPool2d, AclnnProduct::kAscend950, {kFloatsDouble, kInt64}},
    {Api::kAdaptiveMaxPool2d, AclnnProduct::kAtlasA2A3, {kFloatsDouble, kInt64}},
    {Api::kAdaptiveMaxPool3d, AclnnProduct::kAscend950, {kFloats, kInt32Int64}},
    {Api::kAdaptiveMaxPool3d, AclnnProduct::kAtlasA2A3, {kFloats, kInt32}},
    {Api::kMaxPool3dWithArgmaxBackward, AclnnProduct::kAscend950, {kFloats, kInt32Int64}},
    {Api::kMaxPool3dWithArgmaxBackward, AclnnProduct::kAtlasA2A3, {kFloats, kInt32}},
    {Api::kMaxPool2dWithIndicesBackward, AclnnProduct::kAscend950, {kFloats, kInt32Int64}},
    {Api::kMaxPool2dWithIndicesBackward, AclnnProduct::kAtlasA2A3, {kFloat, kInt32Int8}},
    {Api::kAdaptiveMaxPool2dBackward, AclnnProduct::kAscend950, {kFloats, kInt32Int64}},
    {Api::kAdaptiveMaxPool2dBackward, AclnnProduct::kAtlasA2A3, {kFloats, kInt32Int64}},
    {Api::kAdaptiveMaxPool3dBackward, AclnnProduct::kAscend950, {kFloats, kInt32Int64}},
    {Api::kAdaptiveMaxPool3dBackward, AclnnProduct::kAtlasA2A3, {kFloats, kInt32Int64}},
    {Api::kAvgPool2dBackward, AclnnProduct::kAscend950, {kFloats, {}}},
    {Api::kAvgPool2dBackward, AclnnProduct::kAtlasA2A3, {kFloats, {}}},
    {Api::kAvgPool3dBackward, AclnnProduct::kAscend950, {kFloats, {}}},
    {Api::kAvgPool3dBackward, AclnnProduct::kAtlasA2A3, {kFloats, {}}},
    {Api::kAdaptiveAvgPool2dBackward, AclnnProduct::kAscend950, {kFloats, {}}},
    {Api::kAdaptiveAvgPool2dBackward, AclnnProduct::kAtlasA2A3, {kFloats, {}}},
    {Api::kAdaptiveAvgPool3dBackward, AclnnProduct::kAscend950, {kFloats, {}}},
    {Api::kAdaptiveAvgPool3dBackward, AclnnProduct::kAtlasA2A3, {kFloats, {}}},
};

}  // namespace

std::string DtypeSet::Text() const {
  std::string text;
  for (int bit = 0; bit < 64; ++bit) {
    const auto dtype = static_cast<aclDataType>(bit);
    if (!Contains(dtype)) continue;
    if (!text.empty()) text += ", ";
    text += DtypeName(dtype);
  }
  return text.empty() ? "none" : text;
}

Support SupportOf(const Entry& entry) {
  if (!entry.product) return {};
  for (const Row& row : kRows) {
    if (row.api == entry.api && row.product == RowOf(*entry.product).aclnn) return row.support;
  }
  return {};
}

}  // namespace poolgrad::host
