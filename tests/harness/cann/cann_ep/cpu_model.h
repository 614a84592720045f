// SPDX-License-Identifier: Apache-2.0

// Models on onnxruntime's CPU provider, through the C ABI of the wheel's libonnxruntime.so.
#ifndef TESTS_CANN_EP_CPU_MODEL_H_
#define TESTS_CANN_EP_CPU_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace stand_in {

// Element types are those of ONNX.
struct TensorType {
  int element_type;
  std::vector<int64_t> dims;
};

size_t ElementSize(int element_type);
size_t ByteSize(const TensorType& type);

class CpuModel {
 public:
  // Throws std::runtime_error, as all members do, with onnxruntime's message.
  explicit CpuModel(std::string_view onnx);

  size_t input_count() const { return input_names_.size(); }
  size_t output_count() const { return output_names_.size(); }
  const std::string& input_name(size_t index) const { return input_names_[index]; }
  // The declared type of an input, whose sizes must be numbers.
  TensorType input_type(size_t index) const;

  // The outputs' types for inputs of these types, determined by a run on zeros, and on 1 for a single integer, which
  // may be a divisor; on 0 if 1 is an error, as for an index into an axis of one element.
  std::vector<TensorType> OutputTypes(const std::vector<TensorType>& inputs) const;

  // Writes the outputs. Throws if their types are not `output_types`.
  void Run(const std::vector<TensorType>& input_types, const std::vector<void*>& inputs,
           const std::vector<TensorType>& output_types, const std::vector<void*>& outputs) const;

 private:
  class Values;
  static void ReleaseSession(void* session);
  std::vector<TensorType> MeasuredOn(const std::vector<TensorType>& inputs, std::byte single) const;
  Values RunOn(const std::vector<TensorType>& types, const std::vector<void*>& data) const;

  std::unique_ptr<void, void (*)(void*)> session_;  // an OrtSession
  std::vector<std::string> input_names_;
  std::vector<std::string> output_names_;
};

}  // namespace stand_in

#endif  // TESTS_CANN_EP_CPU_MODEL_H_
