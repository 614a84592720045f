// SPDX-License-Identifier: Apache-2.0

#include "fake_ort.h"

#include <algorithm>
#include <cstring>

#include "library.h"

namespace native {

namespace ort = poolgrad::ort;

std::size_t BytesOf(ort::ONNXTensorElementDataType type) {
  switch (type) {
    case ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT:
    case ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32:
      return 4;
    case ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64:
      return 8;
    default:
      return 2;
  }
}

namespace {

const char* release_shown = nullptr;

template <typename T>
void Release(T* object) {
  delete object;
}

template <typename T>
ort::OrtStatus* Copy(const std::vector<T>& from, T* to, std::size_t* size) {
  if (from.size() > *size) Die("more values than there is room for");
  std::copy(from.begin(), from.end(), to);
  *size = from.size();
  return nullptr;
}

// A text with its terminator; without a buffer, only the size.
ort::OrtStatus* CopyText(const std::string& from, char* to, std::size_t* size) {
  if (to != nullptr) std::memcpy(to, from.c_str(), from.size() + 1);
  *size = from.size() + 1;
  return nullptr;
}

template <typename T>
const T& Attribute(const std::map<std::string, T>& attributes, const char* name) {
  const auto found = attributes.find(name);
  if (found == attributes.end()) Die(std::string("the node has no attribute ") + name);
  return found->second;
}

void FillStatuses(ort::OrtApi& api) {
  api.CreateStatus = [](ort::OrtErrorCode code, const char* message) { return new ort::OrtStatus{code, message}; };
  api.GetErrorCode = [](const ort::OrtStatus* status) { return status->code; };
  api.GetErrorMessage = [](const ort::OrtStatus* status) { return status->message.c_str(); };
  api.ReleaseStatus = Release<ort::OrtStatus>;
}

// What registration uses.
void FillRegistration(ort::OrtApi& api) {
  api.CreateKeyValuePairs = [](ort::OrtKeyValuePairs** out) { *out = new ort::OrtKeyValuePairs; };
  api.AddKeyValuePair = [](ort::OrtKeyValuePairs* pairs, const char* key, const char* value) {
    pairs->pairs[key] = value;
  };
  api.ReleaseKeyValuePairs = Release<ort::OrtKeyValuePairs>;
  api.HardwareDevice_Type = [](const ort::OrtHardwareDevice*) { return ort::OrtHardwareDeviceType_CPU; };
  api.HasSessionConfigEntry = [](const ort::OrtSessionOptions*, const char*, int* out) -> ort::OrtStatus* {
    *out = 0;
    return nullptr;
  };
  api.CreateCustomOpDomain = [](const char* name, ort::OrtCustomOpDomain** out) -> ort::OrtStatus* {
    *out = new ort::OrtCustomOpDomain{name, {}};
    return nullptr;
  };
  api.CustomOpDomain_Add = [](ort::OrtCustomOpDomain* domain, const ort::OrtCustomOp* op) -> ort::OrtStatus* {
    domain->ops.push_back(op);
    return nullptr;
  };
  api.AddCustomOpDomain = [](ort::OrtSessionOptions* options, ort::OrtCustomOpDomain* domain) -> ort::OrtStatus* {
    options->domain = domain;
    return nullptr;
  };
  api.ReleaseCustomOpDomain = Release<ort::OrtCustomOpDomain>;
  api.Logger_LogMessage = [](const ort::OrtLogger*, ort::OrtLoggingLevel, const char*, const char*, int,
                             const char*) -> ort::OrtStatus* { return nullptr; };
}

// What a kernel asks about its node.
void FillKernelInfo(ort::OrtApi& api) {
  api.KernelInfo_GetNodeName = [](const ort::OrtKernelInfo*, char* out, std::size_t* size) {
    return CopyText("a node", out, size);
  };
  api.KernelInfo_GetLogger = [](const ort::OrtKernelInfo*, const ort::OrtLogger** out) -> ort::OrtStatus* {
    *out = nullptr;
    return nullptr;
  };
  api.KernelInfo_GetInputCount = [](const ort::OrtKernelInfo* info, std::size_t* out) -> ort::OrtStatus* {
    *out = info->inputs.size();
    return nullptr;
  };
  api.KernelInfo_GetOutputCount = [](const ort::OrtKernelInfo* info, std::size_t* out) -> ort::OrtStatus* {
    *out = info->outputs.size();
    return nullptr;
  };
  api.KernelInfo_GetInputTypeInfo = [](const ort::OrtKernelInfo* info, std::size_t index,
                                       ort::OrtTypeInfo** out) -> ort::OrtStatus* {
    *out = new ort::OrtTypeInfo{info->inputs.at(index)};
    return nullptr;
  };
  api.KernelInfo_GetOutputTypeInfo = [](const ort::OrtKernelInfo* info, std::size_t index,
                                        ort::OrtTypeInfo** out) -> ort::OrtStatus* {
    *out = new ort::OrtTypeInfo{info->outputs.at(index)};
    return nullptr;
  };
  api.ReleaseTypeInfo = Release<ort::OrtTypeInfo>;
  api.KernelInfoGetAttribute_int64 = [](const ort::OrtKernelInfo* info, const char* name,
                                        std::int64_t* out) -> ort::OrtStatus* {
    *out = Attribute(info->ints, name);
    return nullptr;
  };
  api.KernelInfoGetAttributeArray_int64 = [](const ort::OrtKernelInfo* info, const char* name, std::int64_t* out,
                                             std::size_t* size) {
    return Copy(Attribute(info->lists, name), out, size);
  };
  api.KernelInfoGetAttribute_string = [](const ort::OrtKernelInfo* info, const char* name, char* out,
                                         std::size_t* size) {
    return CopyText(Attribute(info->strings, name), out, size);
  };
}

void FillTensors(ort::OrtApi& api) {
  api.CastTypeInfoToTensorInfo = [](const ort::OrtTypeInfo* type,
                                    const ort::OrtTensorTypeAndShapeInfo** out) -> ort::OrtStatus* {
    *out = &type->tensor;
    return nullptr;
  };
  api.GetTensorElementType = [](const ort::OrtTensorTypeAndShapeInfo* info,
                                ort::ONNXTensorElementDataType* out) -> ort::OrtStatus* {
    *out = info->type;
    return nullptr;
  };
  api.GetDimensionsCount = [](const ort::OrtTensorTypeAndShapeInfo* info, std::size_t* out) -> ort::OrtStatus* {
    *out = info->dims.size();
    return nullptr;
  };
  api.GetDimensions = [](const ort::OrtTensorTypeAndShapeInfo* info, std::int64_t* dims, std::size_t count) {
    return Copy(info->dims, dims, &count);
  };
  api.GetTensorTypeAndShape = [](const ort::OrtValue* value, ort::OrtTensorTypeAndShapeInfo** out) -> ort::OrtStatus* {
    *out = new ort::OrtTensorTypeAndShapeInfo(value->info);
    return nullptr;
  };
  api.ReleaseTensorTypeAndShapeInfo = Release<ort::OrtTensorTypeAndShapeInfo>;
  api.GetTensorMutableData = [](ort::OrtValue* value, void** out) -> ort::OrtStatus* {
    *out = value->data.data();
    return nullptr;
  };
}

void FillRun(ort::OrtApi& api) {
  api.KernelContext_GetInput = [](const ort::OrtKernelContext* context, std::size_t index,
                                  const ort::OrtValue** out) -> ort::OrtStatus* {
    *out = &context->inputs.at(index);
    return nullptr;
  };
  api.KernelContext_GetOutput = [](ort::OrtKernelContext* context, std::size_t index, const std::int64_t* dims,
                                   std::size_t rank, ort::OrtValue** out) -> ort::OrtStatus* {
    ort::OrtValue& value = context->outputs.at(index);
    value.info.dims.assign(dims, dims + rank);
    std::size_t bytes = BytesOf(value.info.type);
    for (std::size_t i = 0; i < rank; ++i) bytes *= static_cast<std::size_t>(dims[i]);
    value.data.assign(bytes, 0x7b);
    *out = &value;
    return nullptr;
  };
}

ort::OrtEpApi MakeEpApi() {
  ort::OrtEpApi api{};
  api.CreateEpDevice = [](ort::OrtEpFactory*, const ort::OrtHardwareDevice*, const ort::OrtKeyValuePairs* metadata,
                          const ort::OrtKeyValuePairs*, ort::OrtEpDevice** out) -> ort::OrtStatus* {
    *out = new ort::OrtEpDevice{*metadata};
    return nullptr;
  };
  api.ReleaseHardwareDevice = Release<ort::OrtHardwareDevice>;
  return api;
}

ort::OrtApi MakeApi() {
  ort::OrtApi api{};
  for (const auto fill : {FillStatuses, FillRegistration, FillKernelInfo, FillTensors, FillRun}) fill(api);
  api.GetEpApi = []() -> const ort::OrtEpApi* {
    static const ort::OrtEpApi ep_api = MakeEpApi();
    return &ep_api;
  };
  return api;
}

const ort::OrtApi* GetApi(std::uint32_t) {
  static const ort::OrtApi api = MakeApi();
  return &api;
}

const char* GetVersionString() { return release_shown; }

}  // namespace

const ort::OrtApiBase& FakeOrt(const char* release) {
  static const ort::OrtApiBase base{GetApi, GetVersionString};
  release_shown = release;
  return base;
}

}  // namespace native
