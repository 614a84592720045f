// What the library exports: the functions by which onnxruntime knows a plugin execution provider and a library of
// custom operators, and a description of the machine that needs no onnxruntime.
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
using poolgrad::ep::OrtContext;
namespace ort = poolgrad::ort;

// The minor number of "1.X.Y", which is the newest API version that this onnxruntime has.
std::uint32_t NewestApiVersion(const char* release) {
  const char* dot = std::strchr(release, '.');
  return dot == nullptr ? 0 : static_cast<std::uint32_t>(std::strtoul(dot + 1, nullptr, 10));
}

// The newest version that both sides speak.
OrtContext ContextOf(const ort::OrtApiBase& base) {
  const std::uint32_t version = std::clamp(NewestApiVersion(base.GetVersionString()), 1u, ort::kApiVersion);
  return {*base.GetApi(version), version};
}

// Throws Error if this onnxruntime is older than 1.<version>.<patch>.
void RequireVersion(const OrtContext& ort, const ort::OrtApiBase& base, std::uint32_t version, const std::string& who,
                    const std::string& oldest) {
  if (ort.version >= version) return;
  throw Error(ort::ORT_FAIL, who + " needs onnxruntime " + oldest + " or newer, this is " + base.GetVersionString() +
                                 "; pip install 'onnxruntime>=" + oldest + "'");
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

// The JSON text of Describe, good until the thread's next call; {"problem": text} where there is none.
const char* PoolgradDescribeRuntime(const char* request) noexcept {
  thread_local std::string description;
  try {
    description = Describe(request);
  } catch (const std::exception& error) {
    description = poolgrad::ep::json::Object({{"problem", poolgrad::ep::json::String(error.what())}});
  }
  return description.c_str();
}

// For another copy of this library in the process: whether this one is registered as an execution provider with the
// onnxruntime that has this function table.
bool PoolgradIsRegistered(const ort::OrtApi* api) noexcept {
  try {
    return poolgrad::ep::IsRegistered(api);
  } catch (const std::exception&) {
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
