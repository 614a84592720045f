#include "ep/data_transfer.h"

#include <string>
#include <utility>

#include "ep/tensor_bytes.h"

namespace poolgrad::ep {

DataTransfer::DataTransfer(const EpContext& ort, const MemoryDomain& domain)
    : ort::OrtDataTransferImpl{}, ort_(ort), backend_(domain.backend), streams_(domain.streams) {
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
                                              ort::OrtValue** to, ort::OrtSyncStream** streams,
                                              std::size_t count) noexcept {
  DataTransfer& transfer = *static_cast<DataTransfer*>(self);
  return Guard(transfer.ort_.api, [&] {
    const auto given = [&](std::size_t i) {
      const bool is_given = streams != nullptr && streams[i] != nullptr;
      return is_given ? transfer.ort_.api.SyncStream_GetHandle(streams[i]) : nullptr;
    };
    bool is_synchronized = false;
    aclnn::Stream& stream = transfer.OwnStream();
    aclnn::StreamUse use(stream);
    for (std::size_t i = 0; i < count; ++i) {
      if (given(i) == nullptr && !std::exchange(is_synchronized, true)) transfer.streams_->Synchronize();
      transfer.Copy(stream, from[i], to[i], given(i));
    }
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

aclnn::Stream& DataTransfer::OwnStream() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (stream_ == nullptr) stream_ = std::make_unique<aclnn::Stream>(backend_);
  return *stream_;
}

void DataTransfer::Copy(aclnn::Stream& stream, const ort::OrtValue* from, ort::OrtValue* to, aclrtStream given) const {
  const TensorBytes source = BytesOf(ort_, from);
  const TensorBytes target = BytesOf(ort_, to);
  Require(source.size == target.size, [&] {
    return "a tensor of " + std::to_string(source.size) + " bytes cannot be copied to one of " +
           std::to_string(target.size);
  });
  if (source.size == 0) return;
  if (!IsOnDevice(ort_.ep_api.Value_GetMemoryDevice(from))) {
    stream.CopyToDevice(target.data, source.data, source.size, given);
  } else if (!IsOnDevice(ort_.ep_api.Value_GetMemoryDevice(to))) {
    stream.CopyToHost(target.data, source.data, source.size, given);
  } else {
    stream.CopyOnDevice(target.data, source.data, source.size, given);
  }
}

}  // namespace poolgrad::ep
