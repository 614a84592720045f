// SPDX-License-Identifier: Apache-2.0

// The factory of the provider: lists devices, creates providers, allocators and data transfers for onnxruntime.
#ifndef POOLGRAD_EP_FACTORY_H_
#define POOLGRAD_EP_FACTORY_H_

#include <memory>
#include <vector>

#include "ep/backend_choice.h"
#include "ep/logger.h"
#include "ep/memory_domain.h"
#include "ep/options.h"
#include "ep/ort_context.h"
#include "ep/registration.h"

namespace poolgrad::ep {

class Factory : public ort::OrtEpFactory {
 public:
  // Throws Error if the provider is registered already.
  Factory(const EpContext& ort, const ort::OrtLogger* logger);

 private:
  static const char* GetNameImpl(const ort::OrtEpFactory* self) noexcept;
  static const char* GetVendorImpl(const ort::OrtEpFactory* self) noexcept;
  static std::uint32_t GetVendorIdImpl(const ort::OrtEpFactory* self) noexcept;
  static const char* GetVersionImpl(const ort::OrtEpFactory* self) noexcept;
  static ort::OrtStatus* GetSupportedDevicesImpl(ort::OrtEpFactory* self, const ort::OrtHardwareDevice* const* devices,
                                                 std::size_t device_count, ort::OrtEpDevice** ep_devices,
                                                 std::size_t max_ep_devices, std::size_t* ep_device_count) noexcept;
  static ort::OrtStatus* CreateEpImpl(ort::OrtEpFactory* self, const ort::OrtHardwareDevice* const* devices,
                                      const ort::OrtKeyValuePairs* const* metadata, std::size_t device_count,
                                      const ort::OrtSessionOptions* session_options, const ort::OrtLogger* logger,
                                      ort::OrtEp** out) noexcept;
  static ort::OrtStatus* CreateAllocatorImpl(ort::OrtEpFactory* self, const ort::OrtMemoryInfo* info,
                                             const ort::OrtKeyValuePairs* options, ort::OrtAllocator** out) noexcept;
  static void ReleaseAllocatorImpl(ort::OrtEpFactory* self, ort::OrtAllocator* allocator) noexcept;
  static ort::OrtStatus* CreateDataTransferImpl(ort::OrtEpFactory* self, ort::OrtDataTransferImpl** out) noexcept;
  static bool IsStreamAwareImpl(const ort::OrtEpFactory* self) noexcept;
  static void ReleaseEpImpl(ort::OrtEpFactory* self, ort::OrtEp* ep) noexcept;

  // The hardware of the backend's device `number`. Created here for an NPU that onnxruntime does not discover. Null if
  // the backend is the host and onnxruntime lists no CPU.
  const ort::OrtHardwareDevice* HardwareOf(const aclnn::Backend& backend, const ort::OrtHardwareDevice* const* devices,
                                           std::size_t device_count, std::size_t number);
  OrtHandle<ort::OrtEpDevice> CreateDevice(const aclnn::Backend& backend, const ort::OrtHardwareDevice* hardware,
                                           std::int32_t device);

  // The device of a session: that of its first OrtEpDevice, because onnxruntime places the tensors there. Throws
  // InvalidArgument if the options name another device.
  std::int32_t ChooseDevice(const Options& options, const ort::OrtKeyValuePairs* const* metadata,
                            std::size_t count) const;

  // The memory for the tensors of a session on this backend; null for host memory. Throws InvalidArgument if the
  // session requires device memory and there is none.
  const MemoryDomain* ChooseDomain(const aclnn::Backend& backend, Memory memory) const;

  EpContext ort_;
  Registration registration_;
  Logger logger_;
  MemoryDomains domains_;                                // of the automatic backend
  std::vector<OrtHandle<ort::OrtHardwareDevice>> npus_;  // those that are created here
};

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_FACTORY_H_
