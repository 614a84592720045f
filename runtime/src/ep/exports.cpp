// SPDX-License-Identifier: Apache-2.0

// The functions that the library exports: those that onnxruntime calls in a plugin execution provider and in a library
// of custom operators, and a description of the machine that needs no onnxruntime.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "ep/custom_ops.h"
#include "ep/describe.h"
#include "ep/factory.h"
#include "ep/json.h"
#include "ep/registration.h"

namespace {

using poolgrad::ep::Describe;
using poolgrad::ep::EpContext;
using poolgrad::ep::Error;
using poolgrad::ep::Factory;
using poolgrad::ep::Guard;
using poolgrad::ep::InvalidArgument;
using poolgrad::ep::MessageOfException;
using poolgrad::ep::OrtContext;
namespace ort = poolgrad::ort;

// The minor number of "1.X.Y", which is the newest API version of this onnxruntime.
std::uint32_t NewestApiVersion(const char* release) {
  const char* dot = std::strchr(release, '.');
  return dot == nullptr ? 0 : static_cast<std::uint32_t>(std::strtoul(dot + 1, nullptr, 10));
}

// The newest API version that both this library and this onnxruntime support.
OrtContext ContextOf(const ort::OrtApiBase& base) {
  const std::uint32_t version = std::clamp(NewestApiVersion(base.GetVersionString()), 1u, ort::kApiVersion);
  return {*base.GetApi(version), version};
}

// Throws Error if this onnxruntime is older than 1.<version>.<patch>.
void RequireVersion(const OrtContext& ort, const ort::OrtApiBase& base, std::uint32_t version, const std::string& user,
                    const std::string& oldest) {
  if (ort.version >= version) return;
  throw Error(ort::ORT_FAIL, user + " needs onnxruntime " + oldest + " or newer, this is " + base.GetVersionString() +
                                 "; pip install 'onnxruntime>=" + oldest + "'");
}

std::string DescribeOrProblem(const char* request) {
  try {
    return Describe(request);
  } catch (...) {
    return poolgrad::ep::json::Object({{"problem", poolgrad::ep::json::String(MessageOfException())}});
  }
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

ort::OrtStatus* CreateEpFactories(const char* /*registered_name*/, const ort::OrtApiBase* base,
                                  const ort::OrtLogger* logger, ort::OrtEpFactory** factories,
                                  std::size_t max_factories, std::size_t* factory_count) noexcept {
  const OrtContext ort = ContextOf(*base);
  return Guard(ort.api, [&] {
    *factory_count = 0;
    RequireVersion(ort, *base, ort::kApiVersion, "AclnnExecutionProvider", "1.24.1");
    if (max_factories == 0) throw InvalidArgument("there is no room for a provider factory");
    factories[0] = new Factory(EpContext{ort, *ort.api.GetEpApi()}, logger);
    *factory_count = 1;
  });
}

ort::OrtStatus* ReleaseEpFactory(ort::OrtEpFactory* factory) noexcept {
  delete static_cast<Factory*>(factory);
  return nullptr;
}

// The JSON text of Describe, or {"problem": text} if it throws. Valid until the thread's next call.
const char* PoolgradDescribeRuntime(const char* request) noexcept {
  thread_local std::string description;
  try {
    description = DescribeOrProblem(request);
    return description.c_str();
  } catch (...) {
    return R"({"problem": "out of memory"})";
  }
}

// Called by other copies of this library in the process: whether this copy is registered as an execution provider with
// the onnxruntime that has this function table.
bool PoolgradIsRegistered(const ort::OrtApi* api) noexcept {
  try {
    return poolgrad::ep::IsRegistered(api);
  } catch (...) {
    return false;
  }
}

ort::OrtStatus* RegisterCustomOps(ort::OrtSessionOptions* session_options, const ort::OrtApiBase* base) noexcept {
  const OrtContext ort = ContextOf(*base);
  return Guard(ort.api, [&] {
    RequireVersion(ort, *base, ort::kOldestCustomOpApiVersion, "domain npu as custom operators", "1.19");
    poolgrad::ep::AddCustomOps(ort, session_options);
  });
}

}  // extern "C"
#pragma GCC visibility pop
