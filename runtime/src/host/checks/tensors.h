// What phase 1 checks of the tensors, one check a function. Each answers ACLNN_ERR_PARAM_INVALID except
// where it says otherwise. Which function of CANN runs which checks in which order is the operators' business.
#ifndef POOLGRAD_HOST_CHECKS_TENSORS_H_
#define POOLGRAD_HOST_CHECKS_TENSORS_H_

#include "host/backward_call.h"
#include "host/status.h"

namespace poolgrad::host {

// ACLNN_ERR_PARAM_NULLPTR for a null tensor.
Status CheckTensorsGiven(const BackwardCall& call);

// The dtype tables of CANN: empty where the product lacks the function or the thread a current device.
Status CheckSelfDtype(const BackwardCall& call);
Status CheckIndicesDtype(const BackwardCall& call);
Status CheckIndicesInt32OutsideAscend950(const BackwardCall& call);

// gradOutput and gradInput have self's dtype.
Status CheckGradDtypes(const BackwardCall& call);

// gradOutput and gradInput, or all four tensors, have self's format, and it is none of Ascend's private ones.
Status CheckGradFormats(const BackwardCall& call);
Status CheckAllFormats(const BackwardCall& call);

// Every tensor has as many dimensions as the entry pools axes, and C, with or without N.
Status CheckRanks(const BackwardCall& call);
Status CheckRanksEqual(const BackwardCall& call);

Status CheckIndicesShape(const BackwardCall& call);    // equals gradOutput's
Status CheckGradInputShape(const BackwardCall& call);  // equals self's
Status CheckOnlyBatchEmpty(const BackwardCall& call);  // no dimension of self but N is 0

// Indices count to 2^31 - 1, except on Ascend950.
Status CheckPlaneSize(const BackwardCall& call);

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_CHECKS_TENSORS_H_
