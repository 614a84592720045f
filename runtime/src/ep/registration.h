// That the execution provider is registered with an onnxruntime, and at most once.
#ifndef POOLGRAD_EP_REGISTRATION_H_
#define POOLGRAD_EP_REGISTRATION_H_

#include "ep/ort_context.h"

namespace poolgrad::ep {

// Two factories of one provider would list its devices twice, and onnxruntime refuses a session that is given all of
// them. So a second one is an error: under another name, and also of another copy of this library, which has other
// static variables and is asked by its exported function PoolgradIsRegistered. A process may hold several onnxruntimes;
// each has its own registration.
class Registration {
 public:
  // Throws Error, which names the library that the provider is registered from.
  explicit Registration(const ort::OrtApi& api);
  ~Registration();
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

 private:
  const ort::OrtApi* api_;  // tells onnxruntimes apart
};

// Whether this copy of the library has a registration with the onnxruntime of this function table.
bool IsRegistered(const ort::OrtApi* api);

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_REGISTRATION_H_
