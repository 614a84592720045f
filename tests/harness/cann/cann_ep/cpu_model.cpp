// SPDX-License-Identifier: Apache-2.0

#include "cpu_model.h"

#include <cstring>
#include <functional>
#include <numeric>
#include <stdexcept>

#include "ort_api.h"

namespace stand_in {
namespace {

constexpr int kErrorsOnly = 3;
constexpr int kInt32 = 6;  // of ONNX's TensorProto
constexpr int kInt64 = 7;
constexpr int kNoOptimization = 0;

const poolgrad::ort::OrtApi& Api() {
  static const auto* const api = OrtGetApiBase()->GetApi(poolgrad::ort::kApiVersion);
  return *api;
}

const OrtRunApi& RunApi() { return reinterpret_cast<const OrtRunApi&>(Api()); }

template <typename T>
using Handle = std::unique_ptr<T, void (*)(T*)>;

// Throws std::runtime_error if a call of onnxruntime failed. Releases the status.
void Check(OrtStatus* status) {
  if (status == nullptr) return;
  const Handle<OrtStatus> owner(status, Api().ReleaseStatus);
  throw std::runtime_error(Api().GetErrorMessage(status));
}

// The object that the API's function `create` creates from the arguments.
template <typename T, typename... Parameters, typename... Arguments>
T* Make(OrtStatus* (*create)(Parameters...), const Arguments&... arguments) {
  T* made = nullptr;
  Check(create(arguments..., &made));
  return made;
}

const OrtEnv* Env() {
  static const OrtEnv* const env = Make<OrtEnv>(RunApi().CreateEnv, kErrorsOnly, "stand_in");
  return env;
}

const OrtMemoryInfo* HostMemory() {
  static const OrtMemoryInfo* const info = Make<OrtMemoryInfo>(RunApi().CreateCpuMemoryInfo, 0, 0);
  return info;
}

OrtSession* Session(void* session) { return static_cast<OrtSession*>(session); }

template <typename GetCount, typename GetName>
std::vector<std::string> Names(const OrtSession* session, GetCount get_count, GetName get_name) {
  auto* allocator = Make<OrtDefaultAllocator>(RunApi().GetAllocatorWithDefaultOptions);
  size_t count = 0;
  Check(get_count(session, &count));
  std::vector<std::string> names;
  for (size_t index = 0; index < count; ++index) {
    auto* name = Make<char>(get_name, session, index, allocator);
    names.emplace_back(name);
    Check(RunApi().AllocatorFree(allocator, name));
  }
  return names;
}

std::vector<const char*> Pointers(const std::vector<std::string>& names) {
  std::vector<const char*> pointers;
  for (const std::string& name : names) pointers.push_back(name.c_str());
  return pointers;
}

TensorType TypeOf(const OrtTensorTypeAndShapeInfo* info) {
  auto element = poolgrad::ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  Check(Api().GetTensorElementType(info, &element));
  size_t rank = 0;
  Check(Api().GetDimensionsCount(info, &rank));
  TensorType type{element, std::vector<int64_t>(rank)};
  Check(Api().GetDimensions(info, type.dims.data(), rank));
  return type;
}

TensorType TypeOf(const OrtValue* value) {
  const Handle<OrtTensorTypeAndShapeInfo> info(Make<OrtTensorTypeAndShapeInfo>(Api().GetTensorTypeAndShape, value),
                                               Api().ReleaseTensorTypeAndShapeInfo);
  return TypeOf(info.get());
}

}  // namespace

size_t ElementSize(int element_type) {
  // By ONNX's TensorProto.DataType, from UNDEFINED to BFLOAT16; 0 for strings, which devices do not support.
  constexpr size_t kSizes[] = {0, 4, 1, 1, 2, 2, 4, 8, 0, 1, 2, 8, 4, 8, 8, 16, 2};
  return kSizes[element_type];
}

size_t ByteSize(const TensorType& type) {
  return std::accumulate(type.dims.begin(), type.dims.end(), ElementSize(type.element_type), std::multiplies<>());
}

class CpuModel::Values {
 public:
  Values() = default;
  Values(Values&& other) noexcept : values_(std::move(other.values_)) {}
  ~Values() {
    for (OrtValue* value : values_) {
      if (value != nullptr) RunApi().ReleaseValue(value);
    }
  }

  void Resize(size_t count) { values_.resize(count); }
  void Add(OrtValue* value) { values_.push_back(value); }
  OrtValue** data() { return values_.data(); }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }
  OrtValue* operator[](size_t index) const { return values_[index]; }

 private:
  std::vector<OrtValue*> values_;
};

CpuModel::CpuModel(std::string_view onnx) : session_(nullptr, ReleaseSession) {
  const Handle<OrtOptions> options(Make<OrtOptions>(RunApi().CreateSessionOptions), RunApi().ReleaseSessionOptions);
  Check(RunApi().SetSessionLogSeverityLevel(options.get(), kErrorsOnly + 1));
  Check(RunApi().SetSessionGraphOptimizationLevel(options.get(), kNoOptimization));
  Check(RunApi().SetIntraOpNumThreads(options.get(), 1));
  session_.reset(Make<OrtSession>(RunApi().CreateSessionFromArray, Env(), onnx.data(), onnx.size(), options.get()));
  const OrtSession* session = Session(session_.get());
  input_names_ = Names(session, RunApi().SessionGetInputCount, RunApi().SessionGetInputName);
  output_names_ = Names(session, RunApi().SessionGetOutputCount, RunApi().SessionGetOutputName);
}

void CpuModel::ReleaseSession(void* session) { RunApi().ReleaseSession(Session(session)); }

TensorType CpuModel::input_type(size_t index) const {
  const Handle<OrtTypeInfo> type(Make<OrtTypeInfo>(RunApi().SessionGetInputTypeInfo, Session(session_.get()), index),
                                 Api().ReleaseTypeInfo);
  return TypeOf(Make<const OrtTensorTypeAndShapeInfo>(Api().CastTypeInfoToTensorInfo, type.get()));
}

std::vector<TensorType> CpuModel::OutputTypes(const std::vector<TensorType>& inputs) const {
  try {
    return MeasuredOn(inputs, std::byte{1});
  } catch (const std::runtime_error&) {
    return MeasuredOn(inputs, std::byte{0});
  }
}

std::vector<TensorType> CpuModel::MeasuredOn(const std::vector<TensorType>& inputs, std::byte single) const {
  std::vector<std::vector<std::byte>> values;
  std::vector<void*> data;
  for (const TensorType& input : inputs) {
    std::vector<std::byte>& value = values.emplace_back(ByteSize(input) + 1);
    const bool is_integer = input.element_type == kInt32 || input.element_type == kInt64;
    if (is_integer && ByteSize(input) == ElementSize(input.element_type)) value.front() = single;
    data.push_back(value.data());
  }
  std::vector<TensorType> types;
  for (const OrtValue* value : RunOn(inputs, data)) types.push_back(TypeOf(value));
  return types;
}

void CpuModel::Run(const std::vector<TensorType>& input_types, const std::vector<void*>& inputs,
                   const std::vector<TensorType>& output_types, const std::vector<void*>& outputs) const {
  const Values results = RunOn(input_types, inputs);
  for (size_t index = 0; index < outputs.size(); ++index) {
    const TensorType type = TypeOf(results[index]);
    if (type.element_type != output_types[index].element_type || type.dims != output_types[index].dims) {
      throw std::runtime_error("output " + output_names_[index] + " has a type other than the one given");
    }
    void* result = nullptr;
    Check(Api().GetTensorMutableData(results[index], &result));
    std::memcpy(outputs[index], result, ByteSize(type));
  }
}

CpuModel::Values CpuModel::RunOn(const std::vector<TensorType>& types, const std::vector<void*>& data) const {
  Values inputs;
  for (size_t index = 0; index < types.size(); ++index) {
    const TensorType& type = types[index];
    inputs.Add(Make<OrtValue>(RunApi().CreateTensorWithDataAsOrtValue, HostMemory(), data[index], ByteSize(type),
                              type.dims.data(), type.dims.size(), type.element_type));
  }
  Values outputs;
  outputs.Resize(output_count());
  Check(RunApi().Run(Session(session_.get()), nullptr, Pointers(input_names_).data(), inputs.data(), types.size(),
                     Pointers(output_names_).data(), output_count(), outputs.data()));
  return outputs;
}

}  // namespace stand_in
