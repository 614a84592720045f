// SPDX-License-Identifier: Apache-2.0

// The dialect as custom operators, for an onnxruntime without plugin execution providers, or a session without one.
#ifndef POOLGRAD_EP_CUSTOM_OPS_H_
#define POOLGRAD_EP_CUSTOM_OPS_H_

#include "ep/ort_context.h"

namespace poolgrad::ep {

// Adds the operators, on the backend that the options name, to `session_options`. Throws InvalidArgument for a bad
// option and std::runtime_error if the backend cannot be opened.
void AddCustomOps(const OrtContext& ort, ort::OrtSessionOptions* session_options);

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_CUSTOM_OPS_H_
