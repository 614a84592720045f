// SPDX-License-Identifier: Apache-2.0

// As much of onnxruntime as the provider's library asks for when it is registered, and when its custom operators run.
#ifndef POOLGRAD_TESTS_NATIVE_FAKE_ORT_H_
#define POOLGRAD_TESTS_NATIVE_FAKE_ORT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "abi/ort.h"

// What onnxruntime does not show of its types.
namespace poolgrad::ort {

struct OrtStatus {
  OrtErrorCode code;
  std::string message;
};

struct OrtKeyValuePairs {
  std::map<std::string, std::string> pairs;
};

struct OrtHardwareDevice {};

struct OrtEpDevice {
  OrtKeyValuePairs metadata;
};

struct OrtTensorTypeAndShapeInfo {
  ONNXTensorElementDataType type;
  std::vector<std::int64_t> dims;
};

struct OrtTypeInfo {
  OrtTensorTypeAndShapeInfo tensor;
};

struct OrtValue {
  OrtTensorTypeAndShapeInfo info;
  std::vector<unsigned char> data;
};

// A node: its types and attributes.
struct OrtKernelInfo {
  std::vector<OrtTensorTypeAndShapeInfo> inputs, outputs;
  std::map<std::string, std::int64_t> ints;
  std::map<std::string, std::vector<std::int64_t>> lists;
  std::map<std::string, std::string> strings;
};

// Outputs are of the types that they have before the run; the run gives them dims and memory.
struct OrtKernelContext {
  std::vector<OrtValue> inputs, outputs;
};

struct OrtCustomOpDomain {
  std::string name;
  std::vector<const OrtCustomOp*> ops;
};

struct OrtSessionOptions {
  const OrtCustomOpDomain* domain;  // what AddCustomOpDomain was given
};

}  // namespace poolgrad::ort

namespace native {

std::size_t BytesOf(poolgrad::ort::ONNXTensorElementDataType type);

// An onnxruntime of this release, as it shows itself to a library: "1.24.1" has plugin providers, "1.19.2" has not.
const poolgrad::ort::OrtApiBase& FakeOrt(const char* release);

}  // namespace native

#endif  // POOLGRAD_TESTS_NATIVE_FAKE_ORT_H_
