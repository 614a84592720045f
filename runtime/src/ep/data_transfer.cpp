// SPDX-License-Identifier: Apache-2.0

#include "ep/data_transfer.h"

#include <string>
#include <utility>

#include "ep/tensor_bytes.h"

namespace poolgrad::ep {
namespace {

void CheckSizes(const TensorBytes& source, const TensorBytes& target) {
  Require(source.size == target.size, [&] {
    return "a tensor of " + std::to_string(source.size) + " bytes cannot be copied to one of " +
           std::to_string(target.size);
  });
}

}  // namespace

DataTransfer::DataTransfer(const EpContext& ort, const MemoryDomains& domains) : ort::OrtDataTransferImpl{}, ort_(ort) {
  for (const std::unique_ptr<MemoryDomain>& domain : domains) {
    devices_.push_back(std::make_unique<Device>(Device{domain->kind, domain->device, domain->streams, nullptr}));
  }
  ort_version_supported = ort.version;
  Release = ReleaseImpl;
  CanCopy = CanCopyImpl;
  CopyTensors = CopyTensorsImpl;
}

void DataTransfer::ReleaseImpl(ort::OrtDataTransferImpl* self) noexcept { delete static_cast<DataTransfer*>(self); }

bool DataTransfer::CanCopyImpl(const ort::OrtDataTransferImpl* self, const ort::OrtMemoryDevice* from,
                               const ort::OrtMemoryDevice* to) noexcept {
  const DataTransfer& transfer = *static_cast<const DataTransfer*>(self);
  const bool is_from_device = transfer.DeviceOf(from) != nullptr;
  const bool is_to_device = transfer.DeviceOf(to) != nullptr;
  return (is_from_device || is_to_device) && (is_from_device || transfer.IsOnHost(from)) &&
         (is_to_device || transfer.IsOnHost(to));
}

ort::OrtStatus* DataTransfer::CopyTensorsImpl(ort::OrtDataTransferImpl* self, const ort::OrtValue** from,
                                              ort::OrtValue** to, ort::OrtSyncStream** streams,
                                              std::size_t count) noexcept {
  DataTransfer& transfer = *static_cast<DataTransfer*>(self);
  return Guard(transfer.ort_.api, [&] { transfer.CopyAll({from, to, streams, count}); });
}

void DataTransfer::CopyAll(const Copies& copies) {
  for (std::size_t first = 0; first < copies.count;) {
    Device* const source = DeviceOf(copies.from[first]);
    Device* const target = DeviceOf(copies.to[first]);
    Require(source != nullptr || target != nullptr, "neither tensor is in device memory");
    std::size_t end = first + 1;
    while (end < copies.count && DeviceOf(copies.from[end]) == source && DeviceOf(copies.to[end]) == target) ++end;
    if (source != nullptr && target != nullptr && source != target) {
      for (std::size_t i = first; i < end; ++i) CopyBetween(*source, *target, copies.from[i], copies.to[i]);
    } else {
      CopyOn(source != nullptr ? *source : *target, copies, first, end);
    }
    first = end;
  }
}

DataTransfer::Device* DataTransfer::DeviceOf(const ort::OrtMemoryDevice* memory) const {
  const bool is_npu = ort_.ep_api.MemoryDevice_GetDeviceType(memory) == ort::OrtMemoryInfoDeviceType_NPU &&
                      ort_.ep_api.MemoryDevice_GetVendorId(memory) == kHuaweiVendorId;
  const std::size_t id = ort_.ep_api.MemoryDevice_GetDeviceId(memory);
  return is_npu && id < devices_.size() ? devices_[id].get() : nullptr;
}

DataTransfer::Device* DataTransfer::DeviceOf(const ort::OrtValue* value) const {
  return DeviceOf(ort_.ep_api.Value_GetMemoryDevice(value));
}

bool DataTransfer::IsOnHost(const ort::OrtMemoryDevice* memory) const {
  return ort_.ep_api.MemoryDevice_GetDeviceType(memory) == ort::OrtMemoryInfoDeviceType_CPU;
}

aclnn::Stream& DataTransfer::OwnStream(Device& device) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (device.own_stream == nullptr) {
    device.own_stream = device.streams->Create(aclnn::Backend::Open(device.kind, device.id));
  }
  return *device.own_stream;
}

aclrtStream DataTransfer::StreamOf(const Copies& copies, std::size_t i) const {
  const bool is_given = copies.streams != nullptr && copies.streams[i] != nullptr;
  return is_given ? ort_.api.SyncStream_GetHandle(copies.streams[i]) : nullptr;
}

void DataTransfer::CopyOn(Device& device, const Copies& copies, std::size_t first, std::size_t end) {
  bool is_synchronized = false;
  aclnn::Stream& stream = OwnStream(device);
  aclnn::StreamUse use(stream);
  for (std::size_t i = first; i < end; ++i) {
    const aclrtStream given = StreamOf(copies, i);
    if (given == nullptr && !std::exchange(is_synchronized, true)) device.streams->Synchronize(&stream);
    Copy(stream, copies.from[i], copies.to[i], given);
  }
  use.End();
}

// A device cannot access the memory of another unless the process enables it.
void DataTransfer::CopyBetween(Device& source, Device& target, const ort::OrtValue* from, ort::OrtValue* to) {
  const TensorBytes read = BytesOf(ort_, from);
  const TensorBytes written = BytesOf(ort_, to);
  CheckSizes(read, written);
  if (read.size == 0) return;
  aclnn::Stream& source_stream = OwnStream(source);
  aclnn::Stream& target_stream = OwnStream(target);
  // Always in the order of the devices: BeginUse may wait for the uses of other threads, which must not deadlock.
  aclnn::StreamUse first_use(source.id < target.id ? source_stream : target_stream);
  aclnn::StreamUse second_use(source.id < target.id ? target_stream : source_stream);
  source_stream.SynchronizeDevice();
  target_stream.SynchronizeDevice();
  source_stream.Read(read.data, read.size, nullptr, [&](const void* part, std::size_t offset, std::size_t bytes) {
    target_stream.CopyToDevice(static_cast<char*>(written.data) + offset, part, bytes, nullptr);
  });
  second_use.End();
  first_use.End();
}

void DataTransfer::Copy(aclnn::Stream& stream, const ort::OrtValue* from, ort::OrtValue* to, aclrtStream given) const {
  const TensorBytes source = BytesOf(ort_, from);
  const TensorBytes target = BytesOf(ort_, to);
  CheckSizes(source, target);
  if (source.size == 0) return;
  if (DeviceOf(from) == nullptr) {
    stream.CopyToDevice(target.data, source.data, source.size, given);
  } else if (DeviceOf(to) == nullptr) {
    stream.CopyToHost(target.data, source.data, source.size, given);
  } else {
    stream.CopyOnDevice(target.data, source.data, source.size, given);
  }
}

}  // namespace poolgrad::ep
