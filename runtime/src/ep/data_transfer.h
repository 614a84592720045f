// Copies between host and device memory that onnxruntime asks for outside of the graph: what is fed and fetched,
// branches, initializers, and onnxruntime.copy_tensors.
#ifndef POOLGRAD_EP_DATA_TRANSFER_H_
#define POOLGRAD_EP_DATA_TRANSFER_H_

#include <memory>
#include <mutex>
#include <vector>

#include "aclnn/stream_set.h"
#include "ep/memory_domain.h"

namespace poolgrad::ep {

// A copy for which onnxruntime names a stream is done in the order of that stream; one to the host is finished when
// CopyTensors returns, one from the host has read its source. Where it names none, it does not say which session a copy
// belongs to either: the copy waits for the work of all of them on its device before it starts, and is finished when
// CopyTensors returns. A copy from one device to another goes through host memory.
class DataTransfer : public ort::OrtDataTransferImpl {
 public:
  DataTransfer(const EpContext& ort, const MemoryDomains& domains);

 private:
  static void ReleaseImpl(ort::OrtDataTransferImpl* self) noexcept;
  static bool CanCopyImpl(const ort::OrtDataTransferImpl* self, const ort::OrtMemoryDevice* from,
                          const ort::OrtMemoryDevice* to) noexcept;
  static ort::OrtStatus* CopyTensorsImpl(ort::OrtDataTransferImpl* self, const ort::OrtValue** from, ort::OrtValue** to,
                                         ort::OrtSyncStream** streams, std::size_t count) noexcept;

  // What copies from and to the memory of one device need.
  struct Device {
    aclnn::BackendKind kind;
    std::int32_t id;
    std::shared_ptr<aclnn::StreamSet> streams;  // of the sessions
    std::unique_ptr<aclnn::Stream> own_stream;
  };

  // The device whose memory it is; null for other memory.
  Device* DeviceOf(const ort::OrtMemoryDevice* memory) const;
  Device* DeviceOf(const ort::OrtValue* value) const;
  bool IsOnHost(const ort::OrtMemoryDevice* memory) const;

  // Copies of one device alone, and one from this device to another.
  void CopyAll(Device& device, const ort::OrtValue** from, ort::OrtValue** to, ort::OrtSyncStream** streams,
               std::size_t count);
  void CopyBetween(Device& source, Device& target, const ort::OrtValue* from, ort::OrtValue* to);
  void Copy(aclnn::Stream& stream, const ort::OrtValue* from, ort::OrtValue* to, aclrtStream given) const;

  // Made when first asked for, not when onnxruntime registers the provider: an error there leaves onnxruntime 1.24.1
  // with devices that are gone. Throws std::runtime_error.
  aclnn::Stream& OwnStream(Device& device);

  EpContext ort_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::mutex mutex_;  // of the making of the streams
};

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_DATA_TRANSFER_H_
