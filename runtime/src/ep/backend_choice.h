// SPDX-License-Identifier: Apache-2.0

// The choice of a session's backend.
#ifndef POOLGRAD_EP_BACKEND_CHOICE_H_
#define POOLGRAD_EP_BACKEND_CHOICE_H_

#include <string>

#include "aclnn/backend.h"

namespace poolgrad::ep {

struct BackendChoice {
  const aclnn::Backend& backend;  // with the requested device
  std::string reason;             // text for the log
};

// Why nodes cannot run on the backend's product, or an empty text.
std::string ProductProblem(const aclnn::Backend& backend);

// request: "auto", "cann" or "host". "auto" chooses CANN if its first device opens and its product has the operators,
// else the host. Throws InvalidArgument for another request, and std::runtime_error if the backend cannot be opened or
// has no such device.
BackendChoice ChooseBackend(const std::string& request, std::int32_t device = aclnn::kFirstDevice);

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_BACKEND_CHOICE_H_
