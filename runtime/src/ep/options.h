// The provider options of a session.
#ifndef POOLGRAD_EP_OPTIONS_H_
#define POOLGRAD_EP_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "ep/ort_context.h"

namespace poolgrad::ep {

// Where the tensors of a session lie.
enum class Memory { kAuto, kDevice, kHost };

struct Options {
  std::string backend = "auto";
  bool deterministic = false;
  std::optional<std::int32_t> device_id;  // none: that of the OrtEpDevice that the session was given, or 0
  Memory memory = Memory::kAuto;          // auto: in device memory where the backend has its own
  bool check_indices = true;              // of gradients in device memory
};

// Reads the session entries "ep.aclnnexecutionprovider.<key>", in which form onnxruntime passes provider
// options. Throws InvalidArgument for a key that is not an option, which only onnxruntime 1.24 and newer show.
Options ReadOptions(const OrtContext& ort, const ort::OrtSessionOptions* session_options);

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_OPTIONS_H_
