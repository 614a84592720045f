// SPDX-License-Identifier: Apache-2.0

#include "aclnn/backend.h"

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <utility>

#include "aclnn/device_scope.h"
#include "aclnn/failure.h"

namespace poolgrad::aclnn {
namespace {

void InitialiseAcl(const Api& api) {
  const aclError code = api.aclInit(nullptr);
  if (code == ACL_ERROR_REPEAT_INITIALIZE) return Tolerate(api, code);  // by another library of this process
  Check(api, "aclInit", code);
}

// Returns the number of devices. Throws std::runtime_error if `device` is not among them.
std::uint32_t RequireDevice(const Api& api, std::int32_t device) {
  std::uint32_t count = 0;
  Check(api, "aclrtGetDeviceCount", api.aclrtGetDeviceCount(&count));
  if (count == 0) throw std::runtime_error("aclrtGetDeviceCount finds no NPU; see npu-smi info");
  if (device < 0 || static_cast<std::uint32_t>(device) >= count) {
    throw std::runtime_error("there is no device " + std::to_string(device) + ": aclrtGetDeviceCount finds " +
                             std::to_string(count) + ", counted from 0");
  }
  return count;
}

std::string SocName(const Api& api) {
  const char* name = api.aclrtGetSocName();
  return name == nullptr ? "" : name;
}

bool SharesHostMemory(const Api& api) {
  aclrtRunMode mode = ACL_HOST;
  Check(api, "aclrtGetRunMode", api.aclrtGetRunMode(&mode));
  return mode == ACL_DEVICE;
}

std::optional<std::int64_t> Architecture(const Api& api, std::int32_t device) {
  std::int64_t value = 0;
  if (api.aclrtGetDeviceInfo == nullptr) return std::nullopt;
  const int code = api.aclrtGetDeviceInfo(static_cast<std::uint32_t>(device), ACL_DEV_ATTR_NPU_ARCH, &value);
  Tolerate(api, code);
  if (code != ACL_SUCCESS) return std::nullopt;
  return value;
}

}  // namespace

const char* NameOf(BackendKind kind) { return kind == BackendKind::kHost ? "host" : "cann"; }

Api LoadApiOf(BackendKind kind, Discovery& found) {
  return LoadApi(kind == BackendKind::kHost ? HostLibraryPaths() : CannLibraryPaths(found), found);
}

const Backend& Backend::Open(BackendKind kind, std::int32_t device) {
  static std::mutex mutex;
  // Leaked: sessions may outlive static destruction.
  static auto* const opened = new std::map<std::pair<BackendKind, std::int32_t>, std::unique_ptr<Backend>>;
  const std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<Backend>& backend = (*opened)[{kind, device}];
  Discovery found;
  if (backend == nullptr) backend.reset(new Backend(kind, device, LoadApiOf(kind, found)));
  return *backend;
}

Backend::Backend(BackendKind kind, std::int32_t device, const Api& api) : kind_(kind), device_(device), api_(api) {
  InitialiseAcl(api_);
  device_count_ = RequireDevice(api_, device);
  const DeviceScope scope(*this);  // throws here, not in a session, if the device does not open
  soc_name_ = SocName(api_);
  product_ = ProductOf(soc_name_, Architecture(api_, device));
  shares_host_memory_ = SharesHostMemory(api_);
}

}  // namespace poolgrad::aclnn
