// SPDX-License-Identifier: Apache-2.0

// Written by tools/operator_tables from the rows of the dialect.
#ifndef POOLGRAD_EP_ROUTE_TABLE_H_
#define POOLGRAD_EP_ROUTE_TABLE_H_

#include "ep/routes.h"

namespace poolgrad::ep {

// clang-format off
inline constexpr Route kRoutes[] = {
    {"MaxPool3DGradWithArgmax", aclnn::Product::kAscend950, 3, 5, aclnn::Entry::kMaxPool3dWithArgmaxBackward, IndexTypes::kBoth, false, kUnlimited, kUnlimited, 0},
    {"MaxPool3DGradWithArgmax", aclnn::Product::kAtlasA2A3, 3, 5, aclnn::Entry::kMaxPool3dWithArgmaxBackward, IndexTypes::kInt32, false, 2147483647, 2147483647, 0},
    {"MaxPoolGradWithArgmaxV3", aclnn::Product::kAscend950, 4, 4, aclnn::Entry::kMaxPool2dWithIndicesBackward, IndexTypes::kBoth, false, kUnlimited, kUnlimited, 0},
    {"MaxPoolGradWithArgmaxV3", aclnn::Product::kAtlasA2A3, 4, 4, aclnn::Entry::kMaxPool3dWithArgmaxBackward, IndexTypes::kInt32, false, 2147483647, 2147483647, 0},
    {"AdaptiveMaxPool3DGrad", aclnn::Product::kAscend950, 3, 4, aclnn::Entry::kAdaptiveMaxPool2dBackward, IndexTypes::kBoth, false, 2147483647, 2147483647, 0},
    {"AdaptiveMaxPool3DGrad", aclnn::Product::kAscend950, 5, 5, aclnn::Entry::kAdaptiveMaxPool3dBackward, IndexTypes::kBoth, false, kUnlimited, kUnlimited, 0},
    {"AdaptiveMaxPool3DGrad", aclnn::Product::kAtlasA2A3, 3, 4, aclnn::Entry::kAdaptiveMaxPool2dBackward, IndexTypes::kBoth, false, 2147483647, 16777216, 0},
    {"AdaptiveMaxPool3DGrad", aclnn::Product::kAtlasA2A3, 5, 5, aclnn::Entry::kAdaptiveMaxPool3dBackward, IndexTypes::kInt32, false, 2147483647, 16777216, 0},
    {"MaxPool3DWithArgmaxV2", aclnn::Product::kAscend950, 3, 5, aclnn::Entry::kMaxPool3dWithArgmax, IndexTypes::kBoth, true, kUnlimited, kUnlimited, 0},
    {"MaxPool3DWithArgmaxV2", aclnn::Product::kAtlasA2A3, 3, 5, aclnn::Entry::kMaxPool3dWithArgmax, IndexTypes::kInt32, false, 2147483647, 2147483647, 0},
    {"MaxPoolWithArgmaxV3", aclnn::Product::kAscend950, 4, 4, aclnn::Entry::kMaxPool2dWithIndices, IndexTypes::kBoth, true, kUnlimited, kUnlimited, 0},
    {"MaxPoolWithArgmaxV3", aclnn::Product::kAtlasA2A3, 4, 4, aclnn::Entry::kMaxPool2dWithIndices, IndexTypes::kBoth, false, 2147483647, 2147483647, 0},
    {"AdaptiveMaxPool3d", aclnn::Product::kAscend950, 3, 5, aclnn::Entry::kAdaptiveMaxPool3d, IndexTypes::kBoth, false, kUnlimited, kUnlimited, 0},
    {"AdaptiveMaxPool3d", aclnn::Product::kAtlasA2A3, 3, 5, aclnn::Entry::kAdaptiveMaxPool3d, IndexTypes::kInt32, false, 2147483647, 2147483647, 0},
    {"AdaptiveMaxPool3d", aclnn::Product::kAtlasA2A3, 3, 4, aclnn::Entry::kAdaptiveMaxPool2d, IndexTypes::kInt64, false, 2147483647, 2147483647, 0},
    {"AvgPool3DGrad", aclnn::Product::kAscend950, 3, 4, aclnn::Entry::kAvgPool2dBackward, IndexTypes::kNone, false, 2147483647, 2147483647, 0},
    {"AvgPool3DGrad", aclnn::Product::kAscend950, 5, 5, aclnn::Entry::kAvgPool3dBackward, IndexTypes::kNone, false, kUnlimited, kUnlimited, 72},
    {"AvgPool3DGrad", aclnn::Product::kAtlasA2A3, 3, 4, aclnn::Entry::kAvgPool2dBackward, IndexTypes::kNone, false, 2147483647, 2147483647, 48},
    {"AvgPool3DGrad", aclnn::Product::kAtlasA2A3, 5, 5, aclnn::Entry::kAvgPool3dBackward, IndexTypes::kNone, false, kUnlimited, kUnlimited, 48},
    {"AvgPoolV2Grad", aclnn::Product::kAscend950, 4, 4, aclnn::Entry::kAvgPool2dBackward, IndexTypes::kNone, false, 2147483647, 2147483647, 0},
    {"AvgPoolV2Grad", aclnn::Product::kAtlasA2A3, 4, 4, aclnn::Entry::kAvgPool2dBackward, IndexTypes::kNone, false, 2147483647, 2147483647, 48},
    {"AdaptiveAvgPool3dGrad", aclnn::Product::kAscend950, 3, 4, aclnn::Entry::kAdaptiveAvgPool2dBackward, IndexTypes::kNone, false, kUnlimited, kUnlimited, 0},
    {"AdaptiveAvgPool3dGrad", aclnn::Product::kAscend950, 5, 5, aclnn::Entry::kAdaptiveAvgPool3dBackward, IndexTypes::kNone, false, kUnlimited, kUnlimited, 0},
    {"AdaptiveAvgPool3dGrad", aclnn::Product::kAtlasA2A3, 3, 4, aclnn::Entry::kAdaptiveAvgPool2dBackward, IndexTypes::kNone, false, kUnlimited, kUnlimited, 0},
    {"AdaptiveAvgPool3dGrad", aclnn::Product::kAtlasA2A3, 5, 5, aclnn::Entry::kAdaptiveAvgPool3dBackward, IndexTypes::kNone, false, kUnlimited, kUnlimited, 0},
    {"AdaptiveAvgPool2dGrad", aclnn::Product::kAscend950, 4, 4, aclnn::Entry::kAdaptiveAvgPool2dBackward, IndexTypes::kNone, false, kUnlimited, kUnlimited, 0},
    {"AdaptiveAvgPool2dGrad", aclnn::Product::kAtlasA2A3, 4, 4, aclnn::Entry::kAdaptiveAvgPool2dBackward, IndexTypes::kNone, false, kUnlimited, kUnlimited, 0},
};
// clang-format on

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_ROUTE_TABLE_H_
