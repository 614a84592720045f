// Copies between host and device memory that onnxruntime asks for outside of the graph: what is fed and fetched,
// branches, initializers, and onnxruntime.copy_tensors.
#ifndef POOLGRAD_EP_DATA_TRANSFER_H_
#define POOLGRAD_EP_DATA_TRANSFER_H_

#include <memory>
#include <mutex>

#include "aclnn/stream_set.h"
#include "ep/memory_domain.h"

namespace poolgrad::ep {

// A copy for which onnxruntime names a stream is done in the order of that stream; one to the host is finished when
// CopyTensors returns, one from the host has read its source. Where it names none, it does not say which session a copy
// belongs to either: the copy waits for the work of all of them before it starts, and is finished when CopyTensors
// returns.
class DataTransfer : public ort::OrtDataTransferImpl {
 public:
  DataTransfer(const EpContext& ort, const MemoryDomain& domain);

 private:
  static void ReleaseImpl(ort::OrtDataTransferImpl* self) noexcept;
  static bool CanCopyImpl(const ort::OrtDataTransferImpl* self, const ort::OrtMemoryDevice* from,
                          const ort::OrtMemoryDevice* to) noexcept;
  static ort::OrtStatus* CopyTensorsImpl(ort::OrtDataTransferImpl* self, const ort::OrtValue** from, ort::OrtValue** to,
                                         ort::OrtSyncStream** streams, std::size_t count) noexcept;

  bool IsOnDevice(const ort::OrtMemoryDevice* memory) const;
  bool IsOnHost(const ort::OrtMemoryDevice* memory) const;
  void Copy(aclnn::Stream& stream, const ort::OrtValue* from, ort::OrtValue* to, aclrtStream given) const;

  // Made when first asked for, not when onnxruntime registers the provider: an error there leaves onnxruntime 1.24.1
  // with devices that are gone. Throws std::runtime_error.
  aclnn::Stream& OwnStream();

  EpContext ort_;
  const aclnn::Backend& backend_;
  std::shared_ptr<aclnn::StreamSet> streams_;
  std::mutex mutex_;                       // of the making of the stream
  std::unique_ptr<aclnn::Stream> stream_;  // where the copies are done
};

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_DATA_TRANSFER_H_
