#include "ep/options.h"

namespace poolgrad::ep {
namespace {

constexpr char kPrefix[] = "ep.aclnnexecutionprovider.";

bool Switch(const std::string& key, const std::string& value) {
  Require(value == "0" || value == "1",
          [&] { return "provider option " + key + " is '" + value + "'; it takes 0 or 1"; });
  return value == "1";
}

void Set(Options& options, const std::string& key, const char* value) {
  if (key == "backend") {
    options.backend = value;
  } else if (key == "deterministic") {
    options.deterministic = Switch(key, value);
  } else {
    throw InvalidArgument("'" + key + "' is no provider option; there are: backend, deterministic");
  }
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
