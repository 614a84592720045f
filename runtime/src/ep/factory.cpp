// SPDX-License-Identifier: Apache-2.0

#include "ep/factory.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "ep/allocator.h"
#include "ep/data_transfer.h"
#include "ep/provider.h"

namespace poolgrad::ep {
namespace {

constexpr char kHuawei[] = "Huawei";
constexpr char kDeviceId[] = "device_id";  // key in the metadata of an OrtEpDevice, and provider option

void LogChoice(const Logger& logger, const std::string& prefix, const BackendChoice& choice) {
  logger.Info(prefix + " backend " + aclnn::NameOf(choice.backend.kind()) + " (" + choice.backend.soc_name() +
              "): " + choice.reason);
}

}  // namespace

Factory::Factory(const EpContext& ort, const ort::OrtLogger* logger)
    : ort::OrtEpFactory{}, ort_(ort), registration_(ort.api), logger_(ort.api, logger) {
  ort_version_supported = ort.version;
  GetName = GetNameImpl;
  GetVendor = GetVendorImpl;
  GetVendorId = GetVendorIdImpl;
  GetVersion = GetVersionImpl;
  GetSupportedDevices = GetSupportedDevicesImpl;
  CreateEp = CreateEpImpl;
  ReleaseEp = ReleaseEpImpl;
  CreateAllocator = CreateAllocatorImpl;
  ReleaseAllocator = ReleaseAllocatorImpl;
  CreateDataTransfer = CreateDataTransferImpl;
  IsStreamAware = IsStreamAwareImpl;
}

const char* Factory::GetNameImpl(const ort::OrtEpFactory*) noexcept { return kProviderName; }

const char* Factory::GetVendorImpl(const ort::OrtEpFactory*) noexcept { return "poolgrad-lowering"; }

std::uint32_t Factory::GetVendorIdImpl(const ort::OrtEpFactory*) noexcept { return kHuaweiVendorId; }

const char* Factory::GetVersionImpl(const ort::OrtEpFactory*) noexcept { return POOLGRAD_VERSION; }

ort::OrtStatus* Factory::GetSupportedDevicesImpl(ort::OrtEpFactory* self, const ort::OrtHardwareDevice* const* devices,
                                                 std::size_t device_count, ort::OrtEpDevice** ep_devices,
                                                 std::size_t max_ep_devices, std::size_t* ep_device_count) noexcept {
  Factory& factory = *static_cast<Factory*>(self);
  return Guard(factory.ort_.api, [&] {
    *ep_device_count = 0;
    const BackendChoice choice = ChooseBackend("auto");
    LogChoice(factory.logger_, "this machine has", choice);
    const std::size_t count = std::min<std::size_t>(choice.backend.device_count(), max_ep_devices);
    for (std::size_t i = 0; i < count; ++i) {
      const ort::OrtHardwareDevice* hardware = factory.HardwareOf(choice.backend, devices, device_count, i);
      if (hardware == nullptr) return;
      const auto device = static_cast<std::int32_t>(i);
      if (!choice.backend.shares_host_memory()) {
        factory.domains_.push_back(std::make_unique<MemoryDomain>(factory.ort_, choice.backend.kind(), device));
      }
      ep_devices[i] = factory.CreateDevice(choice.backend, hardware, device).release();
      *ep_device_count = i + 1;
    }
  });
}

const ort::OrtHardwareDevice* Factory::HardwareOf(const aclnn::Backend& backend,
                                                  const ort::OrtHardwareDevice* const* devices,
                                                  std::size_t device_count, std::size_t number) {
  const bool is_npu = backend.kind() == aclnn::BackendKind::kCann;
  std::size_t found = 0;
  for (std::size_t i = 0; i < device_count; ++i) {
    const ort::OrtHardwareDeviceType type = ort_.api.HardwareDevice_Type(devices[i]);
    if (!is_npu && type == ort::OrtHardwareDeviceType_CPU) return devices[i];
    const bool is_ours =
        type == ort::OrtHardwareDeviceType_NPU && ort_.api.HardwareDevice_VendorId(devices[i]) == kHuaweiVendorId;
    if (is_npu && is_ours && found++ == number) return devices[i];
  }
  if (!is_npu) return nullptr;
  ort::OrtHardwareDevice* npu = nullptr;
  Check(ort_.api, ort_.ep_api.CreateHardwareDevice(ort::OrtHardwareDeviceType_NPU, kHuaweiVendorId,
                                                   static_cast<std::uint32_t>(number), kHuawei, nullptr, &npu));
  npus_.emplace_back(npu, ort_.ep_api.ReleaseHardwareDevice);
  return npu;
}

// The device's metadata name the backend that "auto" chooses, the SoC and the number of the device.
OrtHandle<ort::OrtEpDevice> Factory::CreateDevice(const aclnn::Backend& backend, const ort::OrtHardwareDevice* hardware,
                                                  std::int32_t device_id) {
  ort::OrtKeyValuePairs* created_metadata = nullptr;
  ort_.api.CreateKeyValuePairs(&created_metadata);
  const OrtHandle<ort::OrtKeyValuePairs> metadata(created_metadata, ort_.api.ReleaseKeyValuePairs);
  ort_.api.AddKeyValuePair(metadata.get(), "backend", aclnn::NameOf(backend.kind()));
  ort_.api.AddKeyValuePair(metadata.get(), "soc", backend.soc_name().c_str());
  ort_.api.AddKeyValuePair(metadata.get(), kDeviceId, std::to_string(device_id).c_str());
  ort::OrtEpDevice* created_device = nullptr;
  Check(ort_.api, ort_.ep_api.CreateEpDevice(this, hardware, metadata.get(), nullptr, &created_device));
  OrtHandle<ort::OrtEpDevice> device(created_device, ort_.ep_api.ReleaseEpDevice);
  if (!domains_.empty()) {
    const MemoryDomain& domain = *domains_[static_cast<std::size_t>(device_id)];
    Check(ort_.api, ort_.ep_api.EpDevice_AddAllocatorInfo(device.get(), domain.info.get()));
  }
  return device;
}

ort::OrtStatus* Factory::CreateEpImpl(ort::OrtEpFactory* self, const ort::OrtHardwareDevice* const*,
                                      const ort::OrtKeyValuePairs* const* metadata, std::size_t device_count,
                                      const ort::OrtSessionOptions* session_options, const ort::OrtLogger* logger,
                                      ort::OrtEp** out) noexcept {
  const Factory& factory = *static_cast<Factory*>(self);
  const EpContext& ort = factory.ort_;
  return Guard(ort.api, [&] {
    const Logger session_logger(ort.api, logger);
    const Options options = ReadOptions(ort, session_options);
    const BackendChoice choice = ChooseBackend(options.backend, factory.ChooseDevice(options, metadata, device_count));
    LogChoice(session_logger, "the session runs on", choice);
    const MemoryDomain* domain = factory.ChooseDomain(choice.backend, options.memory);
    session_logger.Info(domain == nullptr ? "tensors are in host memory" : "tensors are in device memory");
    *out = new Provider(ort, choice.backend, domain, options, session_logger, factory.logger_);
  });
}

void Factory::ReleaseEpImpl(ort::OrtEpFactory*, ort::OrtEp* ep) noexcept { delete static_cast<Provider*>(ep); }

std::int32_t Factory::ChooseDevice(const Options& options, const ort::OrtKeyValuePairs* const* metadata,
                                   std::size_t count) const {
  const char* given = count == 0 ? nullptr : ort_.api.GetKeyValue(metadata[0], kDeviceId);
  if (given == nullptr) return options.device_id.value_or(aclnn::kFirstDevice);
  const std::int32_t device = std::stoi(given);
  if (!options.device_id) return device;
  Require(*options.device_id == device, [&] {
    return "provider option device_id is '" + std::to_string(*options.device_id) +
           "', and the session was given the OrtEpDevice of device " + given;
  });
  return device;
}

const MemoryDomain* Factory::ChooseDomain(const aclnn::Backend& backend, Memory memory) const {
  const auto device = static_cast<std::size_t>(backend.device());
  const bool is_available = device < domains_.size() && domains_[device]->kind == backend.kind();
  Require(is_available || memory != Memory::kDevice,
          std::string("provider option memory is 'device', and ") +
              (backend.shares_host_memory() ? "this backend works on host memory"
                                            : "the provider was registered for another backend"));
  return is_available && memory != Memory::kHost ? domains_[device].get() : nullptr;
}

// The allocator for tensors outside of sessions, and for sessions in host memory, which rarely need device memory.
ort::OrtStatus* Factory::CreateAllocatorImpl(ort::OrtEpFactory* self, const ort::OrtMemoryInfo* info,
                                             const ort::OrtKeyValuePairs*, ort::OrtAllocator** out) noexcept {
  Factory& factory = *static_cast<Factory*>(self);
  return Guard(factory.ort_.api, [&] {
    int id = 0;
    Check(factory.ort_.api, factory.ort_.api.MemoryInfoGetId(info, &id));
    Require(id >= 0 && static_cast<std::size_t>(id) < factory.domains_.size(),
            [&] { return "device " + std::to_string(id) + " has no memory of its own here"; });
    const MemoryDomain& domain = *factory.domains_[static_cast<std::size_t>(id)];
    *out = new Allocator(factory.ort_, factory.logger_, domain.info.get(),
                         std::make_unique<aclnn::SharedMemory>(domain.kind, domain.device, domain.streams));
  });
}

void Factory::ReleaseAllocatorImpl(ort::OrtEpFactory*, ort::OrtAllocator* allocator) noexcept {
  delete static_cast<Allocator*>(allocator);
}

ort::OrtStatus* Factory::CreateDataTransferImpl(ort::OrtEpFactory* self, ort::OrtDataTransferImpl** out) noexcept {
  Factory& factory = *static_cast<Factory*>(self);
  return Guard(factory.ort_.api,
               [&] { *out = factory.domains_.empty() ? nullptr : new DataTransfer(factory.ort_, factory.domains_); });
}

// A session does all its work in device memory on one stream of its own, which also orders the work of concurrent Runs
// and of the branches of a graph. onnxruntime would create a stream per Run and per branch, and does not order them
// when memory passes from one to another.
bool Factory::IsStreamAwareImpl(const ort::OrtEpFactory*) noexcept { return false; }

}  // namespace poolgrad::ep
