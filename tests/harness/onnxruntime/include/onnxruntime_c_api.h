// SPDX-License-Identifier: Apache-2.0

// What docs/examples/run_lowered.cpp uses of onnxruntime's header of this name, which no Python package contains: the
// same names, types and slots. Gaps are members that it does not use.
#ifndef TESTS_RUNTIME_CPP_ONNXRUNTIME_ONNXRUNTIME_C_API_H_
#define TESTS_RUNTIME_CPP_ONNXRUNTIME_ONNXRUNTIME_C_API_H_

#include <cstddef>
#include <cstdint>

// The unused slots [From, To) of the table.
template <std::size_t From, std::size_t To>
struct Gap {
  void* slots[To - From];
};

struct OrtEnv;
struct OrtEpDevice;
struct OrtMemoryInfo;
struct OrtRunOptions;
struct OrtSession;
struct OrtSessionOptions;
struct OrtStatus;
struct OrtValue;

enum OrtLoggingLevel { ORT_LOGGING_LEVEL_WARNING = 2 };
enum OrtAllocatorType { OrtArenaAllocator = 1 };
enum OrtMemType { OrtMemTypeDefault = 0 };
enum ONNXTensorElementDataType { ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT = 1 };

struct OrtApi {
  Gap<0, 2> gap_0;
  const char* (*GetErrorMessage)(const OrtStatus* status);
  OrtStatus* (*CreateEnv)(OrtLoggingLevel level, const char* name, OrtEnv** out);
  Gap<4, 7> gap_4;
  OrtStatus* (*CreateSession)(const OrtEnv* env, const char* path, const OrtSessionOptions* options, OrtSession** out);
  Gap<8, 9> gap_8;
  OrtStatus* (*Run)(OrtSession* session, const OrtRunOptions* options, const char* const* input_names,
                    const OrtValue* const* inputs, std::size_t input_count, const char* const* output_names,
                    std::size_t output_count, OrtValue** outputs);
  OrtStatus* (*CreateSessionOptions)(OrtSessionOptions** out);
  Gap<11, 49> gap_11;
  OrtStatus* (*CreateTensorWithDataAsOrtValue)(const OrtMemoryInfo* info, void* data, std::size_t bytes,
                                               const std::int64_t* shape, std::size_t rank,
                                               ONNXTensorElementDataType type, OrtValue** out);
  Gap<50, 51> gap_50;
  OrtStatus* (*GetTensorMutableData)(OrtValue* value, void** out);
  Gap<52, 69> gap_52;
  OrtStatus* (*CreateCpuMemoryInfo)(OrtAllocatorType allocator, OrtMemType memory, OrtMemoryInfo** out);
  Gap<70, 92> gap_70;
  void (*ReleaseEnv)(OrtEnv* env);
  void (*ReleaseStatus)(OrtStatus* status);
  void (*ReleaseMemoryInfo)(OrtMemoryInfo* info);
  void (*ReleaseSession)(OrtSession* session);
  void (*ReleaseValue)(OrtValue* value);
  Gap<97, 100> gap_97;
  void (*ReleaseSessionOptions)(OrtSessionOptions* options);
  Gap<101, 130> gap_101;
  OrtStatus* (*AddSessionConfigEntry)(OrtSessionOptions* options, const char* key, const char* value);
  Gap<131, 301> gap_131;
  OrtStatus* (*RegisterExecutionProviderLibrary)(OrtEnv* env, const char* name, const char* path);
  Gap<302, 303> gap_302;
  OrtStatus* (*GetEpDevices)(const OrtEnv* env, const OrtEpDevice* const** devices, std::size_t* count);
  OrtStatus* (*SessionOptionsAppendExecutionProvider_V2)(OrtSessionOptions* options, OrtEnv* env,
                                                         const OrtEpDevice* const* devices, std::size_t device_count,
                                                         const char* const* keys, const char* const* values,
                                                         std::size_t option_count);
  Gap<305, 312> gap_305;
  const char* (*EpDevice_EpName)(const OrtEpDevice* device);
};

static_assert(offsetof(OrtApi, EpDevice_EpName) == 312 * sizeof(void*), "the gaps do not add up");

struct OrtApiBase {
  const OrtApi* (*GetApi)(std::uint32_t version);
  const char* (*GetVersionString)();
};

extern "C" const OrtApiBase* OrtGetApiBase();

#endif  // TESTS_RUNTIME_CPP_ONNXRUNTIME_ONNXRUNTIME_C_API_H_
