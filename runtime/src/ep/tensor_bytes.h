// SPDX-License-Identifier: Apache-2.0

// A tensor of any type and shape as bytes.
#ifndef POOLGRAD_EP_TENSOR_BYTES_H_
#define POOLGRAD_EP_TENSOR_BYTES_H_

#include <cstddef>
#include <string>

#include "ep/ort_context.h"

namespace poolgrad::ep {

struct TensorBytes {
  void* data;
  std::size_t size;
};

// Throws Error for a tensor of strings, and for a tensor whose memory could not be allocated, which onnxruntime does
// not report. The only accessor of a tensor's memory takes a mutable value; a source is only read.
inline TensorBytes BytesOf(const OrtContext& ort, const ort::OrtValue* value) {
  TensorBytes bytes{};
  Check(ort.api, ort.api.GetTensorSizeInBytes(value, &bytes.size));
  Check(ort.api, ort.api.GetTensorMutableData(const_cast<ort::OrtValue*>(value), &bytes.data));
  Require(bytes.size == 0 || bytes.data != nullptr,
          [&] { return "there was no memory for a tensor of " + std::to_string(bytes.size) + " bytes"; });
  return bytes;
}

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_TENSOR_BYTES_H_
