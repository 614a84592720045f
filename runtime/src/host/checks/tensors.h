// SPDX-License-Identifier: Apache-2.0

// The checks of tensors in phase 1 of the gradients, one per function; the pools use the dtype checks too. A failure
// has the code ACLNN_ERR_PARAM_INVALID unless stated otherwise. host/operators/ lists the checks of each function of
// CANN in their order.
#ifndef POOLGRAD_HOST_CHECKS_TENSORS_H_
#define POOLGRAD_HOST_CHECKS_TENSORS_H_

#include "host/pool_call.h"
#include "host/status.h"

namespace poolgrad::host {

// ACLNN_ERR_PARAM_NULLPTR for a null tensor.
Status CheckTensorsGiven(const PoolCall& call);

// The dtype is in CANN's table, which is empty if the product lacks the function or the thread has no current device.
Status CheckSelfDtype(const PoolCall& call);
Status CheckIndicesDtype(const PoolCall& call);
Status CheckIndicesInt32OutsideAscend950(const PoolCall& call);

// gradOutput and gradInput have self's dtype.
Status CheckGradDtypes(const PoolCall& call);

// gradOutput and gradInput, or all four tensors, have self's format, which is not private to Ascend.
Status CheckGradFormats(const PoolCall& call);
Status CheckAllFormats(const PoolCall& call);
Status CheckIndicesFormat(const PoolCall& call);  // not private to Ascend

// Every tensor has the entry's pooled axes and C, with or without N.
Status CheckRanks(const PoolCall& call);
Status CheckRanksEqual(const PoolCall& call);

Status CheckIndicesShape(const PoolCall& call);    // equals gradOutput's
Status CheckGradInputShape(const PoolCall& call);  // equals self's
Status CheckOnlyBatchEmpty(const PoolCall& call);  // no dimension of self but N is 0

// A plane of self has at most 2^31 - 1 elements, except on Ascend950.
Status CheckPlaneSize(const PoolCall& call);

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_CHECKS_TENSORS_H_
