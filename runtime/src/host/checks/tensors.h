// What phase 1 of the gradients checks of the tensors, one check a function; the first three are the pools' too. Each
// answers ACLNN_ERR_PARAM_INVALID except where it says otherwise. Which function of CANN runs which checks in which
// order is the operators' business.
#ifndef POOLGRAD_HOST_CHECKS_TENSORS_H_
#define POOLGRAD_HOST_CHECKS_TENSORS_H_

#include "host/pool_call.h"
#include "host/status.h"

namespace poolgrad::host {

// ACLNN_ERR_PARAM_NULLPTR for a null tensor.
Status CheckTensorsGiven(const PoolCall& call);

// The dtype tables of CANN: empty where the product lacks the function or the thread a current device.
Status CheckSelfDtype(const PoolCall& call);
Status CheckIndicesDtype(const PoolCall& call);
Status CheckIndicesInt32OutsideAscend950(const PoolCall& call);

// gradOutput and gradInput have self's dtype.
Status CheckGradDtypes(const PoolCall& call);

// gradOutput and gradInput, or all four tensors, have self's format, and it is none of Ascend's private ones.
Status CheckGradFormats(const PoolCall& call);
Status CheckAllFormats(const PoolCall& call);
Status CheckIndicesFormat(const PoolCall& call);  // none of Ascend's private ones

// Every tensor has as many dimensions as the entry pools axes, and C, with or without N.
Status CheckRanks(const PoolCall& call);
Status CheckRanksEqual(const PoolCall& call);

Status CheckIndicesShape(const PoolCall& call);    // equals gradOutput's
Status CheckGradInputShape(const PoolCall& call);  // equals self's
Status CheckOnlyBatchEmpty(const PoolCall& call);  // no dimension of self but N is 0

// Indices count to 2^31 - 1, except on Ascend950.
Status CheckPlaneSize(const PoolCall& call);

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_CHECKS_TENSORS_H_
