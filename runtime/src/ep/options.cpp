// SPDX-License-Identifier: Apache-2.0

#include "ep/options.h"

#include <array>
#include <charconv>

namespace poolgrad::ep {
namespace {

constexpr char kPrefix[] = "ep.aclnnexecutionprovider.";
constexpr std::size_t kMaxText = 64;

bool Switch(const std::string& key, const std::string& value) {
  Require(value == "0" || value == "1",
          [&] { return "provider option " + key + " is '" + value + "'; it takes 0 or 1"; });
  return value == "1";
}

std::int32_t DeviceIdOf(const std::string& value) {
  std::int32_t id = -1;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), id);
  const bool is_number = error == std::errc() && end == value.data() + value.size();
  Require(is_number && id >= 0,
          [&] { return "provider option device_id is '" + value + "'; it takes a number from 0"; });
  return id;
}

Memory MemoryOf(const std::string& value) {
  if (value == "auto") return Memory::kAuto;
  if (value == "device") return Memory::kDevice;
  if (value == "host") return Memory::kHost;
  throw InvalidArgument("provider option memory is '" + value + "'; it takes auto, device or host");
}

struct Option {
  const char* key;
  void (*set)(Options& options, const std::string& key, const std::string& value);
};

constexpr Option kOptions[] = {
    {"backend", [](Options& options, const std::string&, const std::string& value) { options.backend = value; }},
    {"check_indices", [](Options& options, const std::string& key,
                         const std::string& value) { options.check_indices = Switch(key, value); }},
    {"deterministic", [](Options& options, const std::string& key,
                         const std::string& value) { options.deterministic = Switch(key, value); }},
    {"device_id",
     [](Options& options, const std::string&, const std::string& value) { options.device_id = DeviceIdOf(value); }},
    {"memory",
     [](Options& options, const std::string&, const std::string& value) { options.memory = MemoryOf(value); }},
};

void Set(Options& options, const std::string& key, const std::string& value) {
  std::string known;
  for (const Option& option : kOptions) {
    if (key == option.key) return option.set(options, key, value);
    known += std::string(known.empty() ? "" : ", ") + option.key;
  }
  throw InvalidArgument("'" + key + "' is no provider option; there are: " + known);
}

Options ReadAllEntries(const ort::OrtApi& api, const ort::OrtSessionOptions* session_options) {
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

Options ReadNamedEntries(const ort::OrtApi& api, const ort::OrtSessionOptions* session_options) {
  Options options;
  for (const Option& option : kOptions) {
    const std::string key = std::string(kPrefix) + option.key;
    int is_set = 0;
    Check(api, api.HasSessionConfigEntry(session_options, key.c_str(), &is_set));
    if (is_set == 0) continue;
    std::array<char, kMaxText> value{};
    std::size_t size = value.size();
    Check(api, api.GetSessionConfigEntry(session_options, key.c_str(), value.data(), &size));
    option.set(options, option.key, value.data());
  }
  return options;
}

}  // namespace

Options ReadOptions(const OrtContext& ort, const ort::OrtSessionOptions* session_options) {
  // onnxruntime before 1.24 cannot list its entries.
  return ort.version < ort::kApiVersion ? ReadNamedEntries(ort.api, session_options)
                                        : ReadAllEntries(ort.api, session_options);
}

}  // namespace poolgrad::ep
