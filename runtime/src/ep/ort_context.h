// SPDX-License-Identifier: Apache-2.0

// onnxruntime's function tables, and conversions between its statuses and this library's exceptions.
#ifndef POOLGRAD_EP_ORT_CONTEXT_H_
#define POOLGRAD_EP_ORT_CONTEXT_H_

#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "abi/ort.h"

namespace poolgrad::ep {

struct OrtContext {
  const ort::OrtApi& api;
  std::uint32_t version;  // the API version that is used with this onnxruntime
};

// With the function table for plugin execution providers, which onnxruntime has since 1.24.
struct EpContext : OrtContext {
  const ort::OrtEpApi& ep_api;
};

// Owns an object of onnxruntime, with the function that releases it.
template <typename T>
using OrtHandle = std::unique_ptr<T, void (*)(T*)>;

class Error : public std::runtime_error {
 public:
  Error(ort::OrtErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ort::OrtErrorCode code() const { return code_; }

 private:
  ort::OrtErrorCode code_;
};

// A bad argument of a node, a Run or a session.
class InvalidArgument : public Error {
 public:
  explicit InvalidArgument(const std::string& message) : Error(ort::ORT_INVALID_ARGUMENT, message) {}
};

// Throws InvalidArgument. Not inlined, which would make the functions that a Run calls longer and slower.
template <typename Reason>
[[noreturn, gnu::cold, gnu::noinline]] void Refuse(Reason&& reason) {
  if constexpr (std::is_invocable_v<Reason>) {
    throw InvalidArgument(reason());
  } else {
    throw InvalidArgument(reason);
  }
}

// Throws InvalidArgument unless the condition holds. `reason` is a text, or a function that returns one: a Run then
// creates no text unless the condition fails.
template <typename Reason>
void Require(bool condition, Reason&& reason) {
  if (!condition) Refuse(reason);
}

[[noreturn, gnu::cold, gnu::noinline]] inline void ThrowStatus(const ort::OrtApi& api, ort::OrtStatus* status) {
  const OrtHandle<ort::OrtStatus> owner(status, api.ReleaseStatus);
  throw Error(api.GetErrorCode(status), api.GetErrorMessage(status));
}

// Throws Error if a call of onnxruntime failed. Releases the status.
inline void Check(const ort::OrtApi& api, ort::OrtStatus* status) {
  if (status != nullptr) ThrowStatus(api, status);
}

// The message of the exception that is being handled.
inline std::string MessageOfException() {
  try {
    throw;
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

// Runs `body` at a C boundary. Any exception becomes a status.
template <typename Body>
ort::OrtStatus* Guard(const ort::OrtApi& api, Body&& body) noexcept {
  try {
    body();
    return nullptr;
  } catch (const Error& error) {
    return api.CreateStatus(error.code(), error.what());
  } catch (const std::exception& error) {
    return api.CreateStatus(ort::ORT_FAIL, error.what());
  } catch (...) {
    return api.CreateStatus(ort::ORT_FAIL, "an exception of unknown type");
  }
}

// The stream that onnxruntime gives to the kernel of this Run, if a provider of the session creates streams for the
// kernel's device, or null.
inline void* GivenStream(const ort::OrtApi& api, const ort::OrtKernelContext* context) {
  void* stream = nullptr;
  Check(api, api.KernelContext_GetGPUComputeStream(context, &stream));
  return stream;
}

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_ORT_CONTEXT_H_
