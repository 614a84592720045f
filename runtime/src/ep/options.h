// SPDX-License-Identifier: Apache-2.0

// The provider options of a session.
#ifndef POOLGRAD_EP_OPTIONS_H_
#define POOLGRAD_EP_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "ep/ort_context.h"

namespace poolgrad::ep {

// The memory of a session's tensors.
enum class Memory { kAuto, kDevice, kHost };

struct Options {
  std::string backend = "auto";
  bool deterministic = false;
  std::optional<std::int32_t> device_id;  // none: the device of the session's OrtEpDevice, or 0
  Memory memory = Memory::kAuto;          // auto: device memory if the backend has its own
  bool check_indices = true;              // of gradients in device memory
};

// Reads the session's entries "ep.aclnnexecutionprovider.<key>", by which onnxruntime passes provider options. Throws
// InvalidArgument for a key that is not an option; only onnxruntime 1.24 and newer can list such keys.
Options ReadOptions(const OrtContext& ort, const ort::OrtSessionOptions* session_options);

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_OPTIONS_H_
