// SPDX-License-Identifier: Apache-2.0

// Copies between host and device memory that onnxruntime requests outside of the graph: inputs, outputs, branches,
// initializers, and onnxruntime.copy_tensors.
#ifndef POOLGRAD_EP_DATA_TRANSFER_H_
#define POOLGRAD_EP_DATA_TRANSFER_H_

#include <memory>
#include <mutex>
#include <vector>

#include "aclnn/stream_set.h"
#include "ep/memory_domain.h"

namespace poolgrad::ep {

// If onnxruntime names a stream for a copy, the copy runs in the order of that stream. When CopyTensors returns, such a
// copy to the host is finished, and one from the host has read its source. If it names no stream, the session of the
// copy is not known: the copy starts after the work of all sessions on its device, and is finished when CopyTensors
// returns. A copy from one device to another goes through host memory.
class DataTransfer : public ort::OrtDataTransferImpl {
 public:
  DataTransfer(const EpContext& ort, const MemoryDomains& domains);

 private:
  static void ReleaseImpl(ort::OrtDataTransferImpl* self) noexcept;
  static bool CanCopyImpl(const ort::OrtDataTransferImpl* self, const ort::OrtMemoryDevice* from,
                          const ort::OrtMemoryDevice* to) noexcept;
  static ort::OrtStatus* CopyTensorsImpl(ort::OrtDataTransferImpl* self, const ort::OrtValue** from, ort::OrtValue** to,
                                         ort::OrtSyncStream** streams, std::size_t count) noexcept;

  // The arguments of CopyTensors; `streams` is null, or holds null for copies without a stream.
  struct Copies {
    const ort::OrtValue** from;
    ort::OrtValue** to;
    ort::OrtSyncStream** streams;
    std::size_t count;
  };

  // A device, as the copies from and to its memory need it.
  struct Device {
    aclnn::BackendKind kind;
    std::int32_t id;
    std::shared_ptr<aclnn::StreamSet> streams;  // of the sessions, and own_stream
    std::shared_ptr<aclnn::Stream> own_stream;
  };

  // The device that the memory belongs to, or null.
  Device* DeviceOf(const ort::OrtMemoryDevice* memory) const;
  Device* DeviceOf(const ort::OrtValue* value) const;
  bool IsOnHost(const ort::OrtMemoryDevice* memory) const;

  void CopyAll(const Copies& copies);
  aclrtStream StreamOf(const Copies& copies, std::size_t i) const;

  // The copies first .. end - 1, each on this device alone or between it and the host.
  void CopyOn(Device& device, const Copies& copies, std::size_t first, std::size_t end);

  // A copy from one device to another.
  void CopyBetween(Device& source, Device& target, const ort::OrtValue* from, ort::OrtValue* to);
  void Copy(aclnn::Stream& stream, const ort::OrtValue* from, ort::OrtValue* to, aclrtStream given) const;

  // Created at the first call. Not when onnxruntime registers the provider: after an error there, onnxruntime 1.24.1
  // keeps pointers to devices that were released. Throws std::runtime_error.
  aclnn::Stream& OwnStream(Device& device);

  EpContext ort_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::mutex mutex_;  // guards the creation of streams
};

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_DATA_TRANSFER_H_
