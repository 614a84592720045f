// SPDX-License-Identifier: Apache-2.0

// Building blocks of the checks of tensors. A failure has the code ACLNN_ERR_PARAM_INVALID unless stated otherwise, and
// the name of the tensor.
#ifndef POOLGRAD_HOST_CHECKS_NAMED_TENSOR_H_
#define POOLGRAD_HOST_CHECKS_NAMED_TENSOR_H_

#include <initializer_list>
#include <string>

#include "host/checks/support.h"
#include "host/pool_call.h"
#include "host/status.h"

namespace poolgrad::host {

struct NamedTensor {
  const char* name;
  const aclTensor* tensor;
};

// "on <product>", for messages about unsupported arguments.
std::string ProductText(const PoolCall& call);

// ACLNN_ERR_PARAM_NULLPTR for a null tensor.
Status CheckGiven(std::initializer_list<NamedTensor> tensors);

Status CheckDtype(const PoolCall& call, NamedTensor checked, const DtypeSet& supported);
Status CheckSameDtype(NamedTensor checked, NamedTensor reference);
Status CheckSameFormat(NamedTensor checked, NamedTensor reference);
Status CheckSameShape(NamedTensor checked, NamedTensor reference);
Status CheckPublicFormat(NamedTensor checked);

// Every tensor has the entry's pooled axes and C, with or without N.
Status CheckRanks(const PoolCall& call, std::initializer_list<NamedTensor> tensors);

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_CHECKS_NAMED_TENSOR_H_
