// Which backend a session gets.
#ifndef POOLGRAD_EP_BACKEND_CHOICE_H_
#define POOLGRAD_EP_BACKEND_CHOICE_H_

#include <string>

#include "aclnn/backend.h"

namespace poolgrad::ep {

struct BackendChoice {
  const aclnn::Backend& backend;  // with the device that was asked for
  std::string reason;             // in words, for the log
};

// request: "auto", "cann" or "host". "auto" takes CANN where a device answers whose product has the
// operators, else the host; the other two never change. Throws InvalidArgument for another word and
// std::runtime_error if the backend cannot be opened, or has no such device.
BackendChoice ChooseBackend(const std::string& request, std::int32_t device = aclnn::kFirstDevice);

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_BACKEND_CHOICE_H_
