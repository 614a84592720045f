#include "ep/options.h"

namespace poolgrad::ep {
namespace {

constexpr char kPrefix[] = "ep.aclnnexecutionprovider.";

void Set(Options& options, const std::string& key, const char* value) {
  if (key != "backend") throw InvalidArgument("'" + key + "' is no provider option; there is: backend");
  options.backend = value;
}

}  // namespace

Options ReadOptions(const ort::OrtApi& api, const ort::OrtSessionOptions* session_options) {
  ort::OrtKeyValuePairs* created = nullptr;
  Check(api, api.GetSessionOptionsConfigEntries(session_options, &created));
  const OrtHandle<ort::OrtKeyValuePairs> entries(created, api.ReleaseKeyValuePairs);
  const char* const* keys = nullptr;
  const char* const* values = nullptr;
  std::size_t count = 0;
  api.GetKeyValuePairs(entries.get(), &keys, &values, &count);
  Options options;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string key = keys[i];
    if (key.rfind(kPrefix, 0) == 0) Set(options, key.substr(sizeof kPrefix - 1), values[i]);
  }
  return options;
}

}  // namespace poolgrad::ep
