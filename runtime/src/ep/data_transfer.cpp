#include "ep/data_transfer.h"

#include <string>

#include "ep/tensor_bytes.h"

namespace poolgrad::ep {

DataTransfer::DataTransfer(const EpContext& ort, const MemoryDomain& domain)
    : ort::OrtDataTransferImpl{}, ort_(ort), streams_(domain.streams), stream_(domain.copies) {
  ort_version_supported = ort.version;
  Release = ReleaseImpl;
  CanCopy = CanCopyImpl;
  CopyTensors = CopyTensorsImpl;
}

void DataTransfer::ReleaseImpl(ort::OrtDataTransferImpl* self) noexcept { delete static_cast<DataTransfer*>(self); }

bool DataTransfer::CanCopyImpl(const ort::OrtDataTransferImpl* self, const ort::OrtMemoryDevice* from,
                               const ort::OrtMemoryDevice* to) noexcept {
  const DataTransfer& transfer = *static_cast<const DataTransfer*>(self);
  if (transfer.IsOnDevice(from)) return transfer.IsOnDevice(to) || transfer.IsOnHost(to);
  return transfer.IsOnHost(from) && transfer.IsOnDevice(to);
}

ort::OrtStatus* DataTransfer::CopyTensorsImpl(ort::OrtDataTransferImpl* self, const ort::OrtValue** from,
                                              ort::OrtValue** to, ort::OrtSyncStream**, std::size_t count) noexcept {
  DataTransfer& transfer = *static_cast<DataTransfer*>(self);
  return Guard(transfer.ort_.api, [&] {
    transfer.streams_->Synchronize();
    aclnn::StreamUse use(*transfer.stream_);
    for (std::size_t i = 0; i < count; ++i) transfer.Copy(from[i], to[i]);
    use.End();
  });
}

bool DataTransfer::IsOnDevice(const ort::OrtMemoryDevice* memory) const {
  return ort_.ep_api.MemoryDevice_GetDeviceType(memory) == ort::OrtMemoryInfoDeviceType_NPU &&
         ort_.ep_api.MemoryDevice_GetVendorId(memory) == kHuaweiVendorId;
}

bool DataTransfer::IsOnHost(const ort::OrtMemoryDevice* memory) const {
  return ort_.ep_api.MemoryDevice_GetDeviceType(memory) == ort::OrtMemoryInfoDeviceType_CPU;
}

void DataTransfer::Copy(const ort::OrtValue* from, ort::OrtValue* to) {
  const TensorBytes source = BytesOf(ort_, from);
  const TensorBytes target = BytesOf(ort_, to);
  Require(source.size == target.size, [&] {
    return "a tensor of " + std::to_string(source.size) + " bytes cannot be copied to one of " +
           std::to_string(target.size);
  });
  if (source.size == 0) return;
  if (!IsOnDevice(ort_.ep_api.Value_GetMemoryDevice(from))) {
    stream_->CopyToDevice(target.data, source.data, source.size);
  } else if (!IsOnDevice(ort_.ep_api.Value_GetMemoryDevice(to))) {
    stream_->CopyToHost(target.data, source.data, source.size);
  } else {
    stream_->CopyOnDevice(target.data, source.data, source.size);
  }
}

}  // namespace poolgrad::ep
