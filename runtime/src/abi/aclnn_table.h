// SPDX-License-Identifier: Apache-2.0

// Written by tools/operator_tables from the rows of the dialect.
#ifndef POOLGRAD_ABI_ACLNN_TABLE_H_
#define POOLGRAD_ABI_ACLNN_TABLE_H_

// clang-format off
// X(name without "aclnn", axes, tensors, lists, index type), in the order in which the functions are looked up.
#define POOLGRAD_ACLNN_FUNCTIONS(X) \
  X(MaxPool3dWithArgmax, 3, kPool, kWindow, ACL_INT32) \
  X(MaxPool2dWithIndices, 2, kPool, kWindow, ACL_INT32) \
  X(AdaptiveMaxPool3d, 3, kPool, kOutputSize, ACL_INT32) \
  X(AdaptiveMaxPool2d, 2, kPool, kOutputSize, ACL_INT64) \
  X(MaxPool3dWithArgmaxBackward, 3, kGradient, kWindow, ACL_INT32) \
  X(MaxPool2dWithIndicesBackward, 2, kGradient, kWindow, ACL_INT32) \
  X(AdaptiveMaxPool3dBackward, 3, kGradient, kNoLists, ACL_INT32) \
  X(AdaptiveMaxPool2dBackward, 2, kGradient, kNoLists, ACL_INT32) \
  X(AvgPool3dBackward, 3, kAverageGradient, kAverageWindow, ACL_DT_UNDEFINED) \
  X(AvgPool2dBackward, 2, kAverageGradient, kAverageWindow, ACL_DT_UNDEFINED) \
  X(AdaptiveAvgPool3dBackward, 3, kAverageGradient, kNoLists, ACL_DT_UNDEFINED) \
  X(AdaptiveAvgPool2dBackward, 2, kAverageGradient, kNoLists, ACL_DT_UNDEFINED)

// X(result, name, parameters) for both phases of each.
#define POOLGRAD_ACLNN_OPERATOR_FUNCTIONS(X) \
  X(aclnnStatus, aclnnMaxPool3dWithArgmaxGetWorkspaceSize, POOLGRAD_ACLNN_MAX_POOL_PARAMETERS) \
  X(aclnnStatus, aclnnMaxPool3dWithArgmax, POOLGRAD_ACLNN_EXECUTE_PARAMETERS) \
  X(aclnnStatus, aclnnMaxPool2dWithIndicesGetWorkspaceSize, POOLGRAD_ACLNN_MAX_POOL_PARAMETERS) \
  X(aclnnStatus, aclnnMaxPool2dWithIndices, POOLGRAD_ACLNN_EXECUTE_PARAMETERS) \
  X(aclnnStatus, aclnnAdaptiveMaxPool3dGetWorkspaceSize, POOLGRAD_ACLNN_ADAPTIVE_MAX_POOL_PARAMETERS) \
  X(aclnnStatus, aclnnAdaptiveMaxPool3d, POOLGRAD_ACLNN_EXECUTE_PARAMETERS) \
  X(aclnnStatus, aclnnAdaptiveMaxPool2dGetWorkspaceSize, POOLGRAD_ACLNN_ADAPTIVE_MAX_POOL_PARAMETERS) \
  X(aclnnStatus, aclnnAdaptiveMaxPool2d, POOLGRAD_ACLNN_EXECUTE_PARAMETERS) \
  X(aclnnStatus, aclnnMaxPool3dWithArgmaxBackwardGetWorkspaceSize, POOLGRAD_ACLNN_MAX_POOL_BACKWARD_PARAMETERS) \
  X(aclnnStatus, aclnnMaxPool3dWithArgmaxBackward, POOLGRAD_ACLNN_EXECUTE_PARAMETERS) \
  X(aclnnStatus, aclnnMaxPool2dWithIndicesBackwardGetWorkspaceSize, POOLGRAD_ACLNN_MAX_POOL_BACKWARD_PARAMETERS) \
  X(aclnnStatus, aclnnMaxPool2dWithIndicesBackward, POOLGRAD_ACLNN_EXECUTE_PARAMETERS) \
  X(aclnnStatus, aclnnAdaptiveMaxPool3dBackwardGetWorkspaceSize, POOLGRAD_ACLNN_ADAPTIVE_MAX_POOL_BACKWARD_PARAMETERS) \
  X(aclnnStatus, aclnnAdaptiveMaxPool3dBackward, POOLGRAD_ACLNN_EXECUTE_PARAMETERS) \
  X(aclnnStatus, aclnnAdaptiveMaxPool2dBackwardGetWorkspaceSize, POOLGRAD_ACLNN_ADAPTIVE_MAX_POOL_BACKWARD_PARAMETERS) \
  X(aclnnStatus, aclnnAdaptiveMaxPool2dBackward, POOLGRAD_ACLNN_EXECUTE_PARAMETERS) \
  X(aclnnStatus, aclnnAvgPool3dBackwardGetWorkspaceSize, POOLGRAD_ACLNN_AVG_POOL_3D_BACKWARD_PARAMETERS) \
  X(aclnnStatus, aclnnAvgPool3dBackward, POOLGRAD_ACLNN_EXECUTE_PARAMETERS) \
  X(aclnnStatus, aclnnAvgPool2dBackwardGetWorkspaceSize, POOLGRAD_ACLNN_AVG_POOL_2D_BACKWARD_PARAMETERS) \
  X(aclnnStatus, aclnnAvgPool2dBackward, POOLGRAD_ACLNN_EXECUTE_PARAMETERS) \
  X(aclnnStatus, aclnnAdaptiveAvgPool3dBackwardGetWorkspaceSize, POOLGRAD_ACLNN_ADAPTIVE_AVG_POOL_BACKWARD_PARAMETERS) \
  X(aclnnStatus, aclnnAdaptiveAvgPool3dBackward, POOLGRAD_ACLNN_EXECUTE_PARAMETERS) \
  X(aclnnStatus, aclnnAdaptiveAvgPool2dBackwardGetWorkspaceSize, POOLGRAD_ACLNN_ADAPTIVE_AVG_POOL_BACKWARD_PARAMETERS) \
  X(aclnnStatus, aclnnAdaptiveAvgPool2dBackward, POOLGRAD_ACLNN_EXECUTE_PARAMETERS)
// clang-format on

#endif  // POOLGRAD_ABI_ACLNN_TABLE_H_
