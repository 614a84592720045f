// SPDX-License-Identifier: Apache-2.0

// Runs the model pools.onnx with the execution provider: run_lowered MODEL LIBRARY.
#include <onnxruntime_c_api.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <vector>

namespace {

constexpr char kProvider[] = "AclnnExecutionProvider";
constexpr std::uint32_t kApiVersion = 24;  // of onnxruntime 1.24, the oldest that has what the provider needs

const OrtApi& Api() {
  static const OrtApi* const api = OrtGetApiBase()->GetApi(kApiVersion);
  if (api == nullptr) throw std::runtime_error("this onnxruntime is older than 1.24");
  return *api;
}

template <typename T>
using Owner = std::unique_ptr<T, void (*)(T*)>;

// Throws what a call of onnxruntime reports, if it failed.
void Check(OrtStatus* status) {
  if (status == nullptr) return;
  const Owner<OrtStatus> owner(status, Api().ReleaseStatus);
  throw std::runtime_error(Api().GetErrorMessage(status));
}

// The first device of the provider, whose library is registered: an NPU, or the CPU where there is none.
const OrtEpDevice* FindDevice(OrtEnv* env) {
  const OrtEpDevice* const* devices = nullptr;
  size_t count = 0;
  Check(Api().GetEpDevices(env, &devices, &count));
  for (size_t i = 0; i < count; ++i) {
    if (std::strcmp(Api().EpDevice_EpName(devices[i]), kProvider) == 0) return devices[i];
  }
  throw std::runtime_error("the library has no device");
}

Owner<OrtSession> MakeSession(OrtEnv* env, const char* model, const OrtEpDevice* device) {
  OrtSessionOptions* options = nullptr;
  Check(Api().CreateSessionOptions(&options));
  const Owner<OrtSessionOptions> owner(options, Api().ReleaseSessionOptions);
  const char* const keys[] = {"backend"};
  const char* const values[] = {"auto"};  // the NPU where one answers, else the host library
  Check(Api().SessionOptionsAppendExecutionProvider_V2(options, env, &device, 1, keys, values, 1));
  // An error if a node would run on the CPU provider. Leave this out for models with other nodes than those of npu.
  Check(Api().AddSessionConfigEntry(options, "session.disable_cpu_ep_fallback", "1"));
  OrtSession* session = nullptr;
  Check(Api().CreateSession(env, model, options, &session));
  return {session, Api().ReleaseSession};
}

// A tensor of one image with one channel, in the memory of `elements`, which has to outlive it.
Owner<OrtValue> MakeTensor(std::vector<float>& elements, std::int64_t height, std::int64_t width) {
  OrtMemoryInfo* memory = nullptr;
  Check(Api().CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &memory));
  const Owner<OrtMemoryInfo> owner(memory, Api().ReleaseMemoryInfo);
  const std::int64_t shape[] = {1, 1, height, width};
  OrtValue* tensor = nullptr;
  Check(Api().CreateTensorWithDataAsOrtValue(memory, elements.data(), elements.size() * sizeof(float), shape, 4,
                                             ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &tensor));
  return {tensor, Api().ReleaseValue};
}

void Run(const char* model, const char* library) {
  OrtEnv* env = nullptr;
  Check(Api().CreateEnv(ORT_LOGGING_LEVEL_WARNING, "run_lowered", &env));
  const Owner<OrtEnv> env_owner(env, Api().ReleaseEnv);
  Check(Api().RegisterExecutionProviderLibrary(env, kProvider, library));
  const Owner<OrtSession> session = MakeSession(env, model, FindDevice(env));

  std::vector<float> x = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  std::vector<float> dy = {1, 2, 3, 4};
  const Owner<OrtValue> x_tensor = MakeTensor(x, 4, 4);
  const Owner<OrtValue> dy_tensor = MakeTensor(dy, 2, 2);
  const char* const input_names[] = {"x", "dy"};
  const OrtValue* const inputs[] = {x_tensor.get(), dy_tensor.get()};
  const char* const output_names[] = {"dx"};
  OrtValue* dx = nullptr;
  Check(Api().Run(session.get(), nullptr, input_names, inputs, 2, output_names, 1, &dx));
  const Owner<OrtValue> dx_owner(dx, Api().ReleaseValue);

  void* data = nullptr;
  Check(Api().GetTensorMutableData(dx, &data));
  const float* const gradient = static_cast<const float*>(data);
  for (size_t i = 0; i < x.size(); ++i) std::cout << gradient[i] << (i % 4 == 3 ? '\n' : ' ');
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: run_lowered MODEL LIBRARY\n";
    return 2;
  }
  try {
    Run(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
