// SPDX-License-Identifier: Apache-2.0

// Ensures that the execution provider is registered at most once with an onnxruntime.
#ifndef POOLGRAD_EP_REGISTRATION_H_
#define POOLGRAD_EP_REGISTRATION_H_

#include "ep/ort_context.h"

namespace poolgrad::ep {

// Two factories of one provider would list its devices twice, and onnxruntime refuses a session with all of these
// devices. So a second registration is an error, under another name or from another copy of this library. Another copy
// has static variables of its own; it is queried by its exported function PoolgradIsRegistered. A process may hold
// several onnxruntimes, each with its own registration.
class Registration {
 public:
  // Throws Error if the provider is registered already; the message names the library.
  explicit Registration(const ort::OrtApi& api);
  ~Registration();
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

 private:
  const ort::OrtApi* api_;  // identifies the onnxruntime
};

// Whether this copy of the library has a registration with the onnxruntime of this function table.
bool IsRegistered(const ort::OrtApi* api);

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_REGISTRATION_H_
