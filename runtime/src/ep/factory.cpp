#include "ep/factory.h"

#include <memory>

#include "ep/allocator.h"
#include "ep/data_transfer.h"
#include "ep/provider.h"

namespace poolgrad::ep {
namespace {

constexpr char kHuawei[] = "Huawei";

void LogChoice(const Logger& logger, const std::string& who, const BackendChoice& choice) {
  logger.Info(who + " backend " + aclnn::NameOf(choice.backend.kind()) + " (" + choice.backend.soc_name() +
              "): " + choice.reason);
}

}  // namespace

Factory::Factory(const EpContext& ort, const ort::OrtLogger* logger)
    : ort::OrtEpFactory{},
      ort_(ort),
      registration_(ort.api),
      logger_(ort.api, logger),
      npu_(nullptr, ort.ep_api.ReleaseHardwareDevice) {
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
    const ort::OrtHardwareDevice* hardware = factory.HardwareOf(choice.backend, devices, device_count);
    if (hardware == nullptr || max_ep_devices == 0) return;
    if (!choice.backend.shares_host_memory()) {
      factory.domain_ = std::make_unique<MemoryDomain>(factory.ort_, choice.backend);
    }
    ep_devices[0] = factory.CreateDevice(choice.backend, hardware);
    *ep_device_count = 1;
  });
}

const ort::OrtHardwareDevice* Factory::HardwareOf(const aclnn::Backend& backend,
                                                  const ort::OrtHardwareDevice* const* devices,
                                                  std::size_t device_count) {
  const bool is_npu = backend.kind() == aclnn::BackendKind::kCann;
  for (std::size_t i = 0; i < device_count; ++i) {
    const ort::OrtHardwareDeviceType type = ort_.api.HardwareDevice_Type(devices[i]);
    if (!is_npu && type == ort::OrtHardwareDeviceType_CPU) return devices[i];
    if (is_npu && type == ort::OrtHardwareDeviceType_NPU &&
        ort_.api.HardwareDevice_VendorId(devices[i]) == kHuaweiVendorId) {
      return devices[i];
    }
  }
  if (is_npu && npu_ == nullptr) {
    ort::OrtHardwareDevice* npu = nullptr;
    Check(ort_.api,
          ort_.ep_api.CreateHardwareDevice(ort::OrtHardwareDeviceType_NPU, kHuaweiVendorId, 0, kHuawei, nullptr, &npu));
    npu_.reset(npu);
  }
  return npu_.get();
}

// The device's metadata tell a user of onnxruntime which backend "auto" takes.
ort::OrtEpDevice* Factory::CreateDevice(const aclnn::Backend& backend, const ort::OrtHardwareDevice* hardware) {
  ort::OrtKeyValuePairs* created = nullptr;
  ort_.api.CreateKeyValuePairs(&created);
  const OrtHandle<ort::OrtKeyValuePairs> metadata(created, ort_.api.ReleaseKeyValuePairs);
  ort_.api.AddKeyValuePair(metadata.get(), "backend", aclnn::NameOf(backend.kind()));
  ort_.api.AddKeyValuePair(metadata.get(), "soc", backend.soc_name().c_str());
  ort::OrtEpDevice* device = nullptr;
  Check(ort_.api, ort_.ep_api.CreateEpDevice(this, hardware, metadata.get(), nullptr, &device));
  if (domain_ != nullptr) Check(ort_.api, ort_.ep_api.EpDevice_AddAllocatorInfo(device, domain_->info.get()));
  return device;
}

ort::OrtStatus* Factory::CreateEpImpl(ort::OrtEpFactory* self, const ort::OrtHardwareDevice* const*,
                                      const ort::OrtKeyValuePairs* const*, std::size_t,
                                      const ort::OrtSessionOptions* session_options, const ort::OrtLogger* logger,
                                      ort::OrtEp** out) noexcept {
  const Factory& factory = *static_cast<Factory*>(self);
  const EpContext& ort = factory.ort_;
  return Guard(ort.api, [&] {
    const Logger session_logger(ort.api, logger);
    const Options options = ReadOptions(ort, session_options);
    const BackendChoice choice = ChooseBackend(options.backend);
    LogChoice(session_logger, "the session runs on", choice);
    const MemoryDomain* domain = factory.ChooseDomain(choice.backend, options.memory);
    session_logger.Info(domain == nullptr ? "tensors are in host memory" : "tensors are in device memory");
    *out = new Provider(ort, choice.backend, domain, options, session_logger, factory.logger_);
  });
}

void Factory::ReleaseEpImpl(ort::OrtEpFactory*, ort::OrtEp* ep) noexcept { delete static_cast<Provider*>(ep); }

const MemoryDomain* Factory::ChooseDomain(const aclnn::Backend& backend, Memory memory) const {
  const bool is_available = domain_ != nullptr && &domain_->backend == &backend;
  Require(is_available || memory != Memory::kDevice,
          std::string("provider option memory is 'device', and ") +
              (backend.shares_host_memory() ? "this backend works on host memory"
                                            : "the provider was registered for another backend"));
  return is_available && memory != Memory::kHost ? domain_.get() : nullptr;
}

// The allocator of tensors outside of sessions, and of sessions in host memory, which hardly ask for any.
ort::OrtStatus* Factory::CreateAllocatorImpl(ort::OrtEpFactory* self, const ort::OrtMemoryInfo*,
                                             const ort::OrtKeyValuePairs*, ort::OrtAllocator** out) noexcept {
  Factory& factory = *static_cast<Factory*>(self);
  return Guard(factory.ort_.api, [&] {
    Require(factory.domain_ != nullptr, "this backend works on host memory");
    const MemoryDomain& domain = *factory.domain_;
    *out = new Allocator(factory.ort_, factory.logger_, domain.info.get(),
                         std::make_unique<aclnn::SharedMemory>(domain.backend, domain.streams));
  });
}

void Factory::ReleaseAllocatorImpl(ort::OrtEpFactory*, ort::OrtAllocator* allocator) noexcept {
  delete static_cast<Allocator*>(allocator);
}

ort::OrtStatus* Factory::CreateDataTransferImpl(ort::OrtEpFactory* self, ort::OrtDataTransferImpl** out) noexcept {
  Factory& factory = *static_cast<Factory*>(self);
  return Guard(factory.ort_.api,
               [&] { *out = factory.domain_ == nullptr ? nullptr : new DataTransfer(factory.ort_, *factory.domain_); });
}

// A session does all its work in device memory on one stream of its own, which also orders what concurrent Runs and
// the branches of a graph do. onnxruntime's streams are per Run and per branch; it does not order them where memory
// passes from one to another.
bool Factory::IsStreamAwareImpl(const ort::OrtEpFactory*) noexcept { return false; }

}  // namespace poolgrad::ep
