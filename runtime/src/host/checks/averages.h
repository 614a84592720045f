// SPDX-License-Identifier: Apache-2.0

// The checks of phase 1 of the gradients of average pools, one per function. A failure has the code
// ACLNN_ERR_PARAM_INVALID unless stated otherwise. host/operators/ lists the checks of each function of CANN in their
// order.
#ifndef POOLGRAD_HOST_CHECKS_AVERAGES_H_
#define POOLGRAD_HOST_CHECKS_AVERAGES_H_

#include "host/pool_call.h"
#include "host/status.h"

namespace poolgrad::host {

// CANN's name of the tensor that the function writes.
const char* NameOfResult(const PoolCall& call);

// gradOutput has one position in each plane. It has the entry's spatial axes.
bool HasOneWindow(const PoolCall& call);

// ACLNN_ERR_PARAM_NULLPTR for a null tensor, or a null list. CANN reads a null stride in aclnnAvgPool2dBackward.
Status CheckAverageTensorsGiven(const PoolCall& call);
Status CheckAverageListsGiven(const PoolCall& call);

// The dtypes of gradOutput and self, and of the result, are in CANN's table.
Status CheckAverageInputDtypes(const PoolCall& call);
Status CheckAverageDtypes(const PoolCall& call);
Status CheckResultDtype(const PoolCall& call);       // the result's is gradOutput's
Status CheckInputDtypesEqual(const PoolCall& call);  // gradOutput's and self's are equal
Status CheckAdaptive3dDtypes(const PoolCall& call);  // in the table, or DOUBLE for one window; all equal

Status CheckAvgPool2dFormats(const PoolCall& call);  // NCHW or NCL; rank 4: NCHW
Status CheckResultFormat(const PoolCall& call);      // the result's is gradOutput's, and not private to Ascend
Status CheckInputFormats(const PoolCall& call);      // gradOutput's is self's, and not private to Ascend
Status CheckAverageFormats(const PoolCall& call);    // all three are equal, and not private to Ascend

Status CheckAvgPool2dRanks(const PoolCall& call);    // gradOutput and the result have 3, or 4
Status CheckAvgPool3dRanks(const PoolCall& call);    // gradOutput has 4 or 5, as the others
Status CheckAdaptive2dShapes(const PoolCall& call);  // ranks, and the dimensions before the last two
Status CheckAdaptive3dShapes(const PoolCall& call);  // ranks, and all dimensions that are to be equal
Status CheckResultShape(const PoolCall& call);       // equals self's

// aclnnAvgPool2dBackward: kernelSize has 1 or 2 values, stride at most 2, all positive; padding has 1 or 2, at most
// half the kernel.
Status CheckAvgPool2dLists(const PoolCall& call);
Status CheckAvgPool2dPadding(const PoolCall& call);
Status CheckCubeMathType(const PoolCall& call);  // 0 to 3

// aclnnAvgPool3dBackward: the number of values of the lists, and what they are.
Status CheckAvgPool3dLists(const PoolCall& call);
Status CheckAvgPool3dWindow(const PoolCall& call);

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_CHECKS_AVERAGES_H_
