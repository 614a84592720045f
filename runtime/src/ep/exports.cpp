// What the library exports: the two functions by which onnxruntime knows a plugin execution provider, and a
// description of the machine that needs no onnxruntime.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "ep/describe.h"
#include "ep/factory.h"
#include "ep/json.h"

namespace {

using poolgrad::ep::Describe;
using poolgrad::ep::EpContext;
using poolgrad::ep::Error;
using poolgrad::ep::Factory;
using poolgrad::ep::Guard;
using poolgrad::ep::InvalidArgument;
namespace ort = poolgrad::ort;

// The minor number of "1.X.Y", which is the newest API version that this onnxruntime has.
std::uint32_t NewestApiVersion(const char* release) {
  const char* dot = std::strchr(release, '.');
  return dot == nullptr ? 0 : static_cast<std::uint32_t>(std::strtoul(dot + 1, nullptr, 10));
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

ort::OrtStatus* CreateEpFactories(const char* /*registered_name*/, const ort::OrtApiBase* base,
                                  const ort::OrtLogger* logger, ort::OrtEpFactory** factories,
                                  std::size_t max_factories, std::size_t* factory_count) noexcept {
  const std::string release = base->GetVersionString();
  const std::uint32_t version = std::clamp(NewestApiVersion(release.c_str()), 1u, ort::kApiVersion);
  const ort::OrtApi& api = *base->GetApi(version);
  return Guard(api, [&] {
    *factory_count = 0;
    if (version < ort::kApiVersion) {
      throw Error(ort::ORT_FAIL, "AclnnExecutionProvider needs onnxruntime 1.24.1 or newer, this is " + release +
                                     "; pip install 'onnxruntime>=1.24.1'");
    }
    if (max_factories == 0) throw InvalidArgument("there is no room for a provider factory");
    factories[0] = new Factory(EpContext{{api, version}, *api.GetEpApi()}, logger);
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

}  // extern "C"
#pragma GCC visibility pop
