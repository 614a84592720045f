// SPDX-License-Identifier: Apache-2.0

// The part of onnxruntime's C ABI that runs models, in addition to abi/ort.h, with the slots of the official header.
#ifndef TESTS_CANN_EP_ORT_API_H_
#define TESTS_CANN_EP_ORT_API_H_

#include <cstddef>
#include <cstdint>

#include "abi/ort.h"

namespace stand_in {

using poolgrad::ort::Gap;
using poolgrad::ort::OrtMemoryInfo;
using poolgrad::ort::OrtStatus;
using poolgrad::ort::OrtTensorTypeAndShapeInfo;
using poolgrad::ort::OrtTypeInfo;
using poolgrad::ort::OrtValue;
struct OrtEnv;
struct OrtSession;
struct OrtOptions;
struct OrtDefaultAllocator;

// The same table as poolgrad::ort::OrtApi, with other members.
struct OrtRunApi {
  Gap<0, 3> gap_0;
  OrtStatus* (*CreateEnv)(int log_level, const char* name, OrtEnv** out);
  Gap<4, 8> gap_4;
  OrtStatus* (*CreateSessionFromArray)(const OrtEnv* env, const void* model, size_t size, const OrtOptions* options,
                                       OrtSession** out);
  OrtStatus* (*Run)(OrtSession* session, const void* run_options, const char* const* input_names,
                    const OrtValue* const* inputs, size_t input_count, const char* const* output_names,
                    size_t output_count, OrtValue** outputs);
  OrtStatus* (*CreateSessionOptions)(OrtOptions** out);
  Gap<11, 22> gap_11;
  OrtStatus* (*SetSessionLogSeverityLevel)(OrtOptions* options, int level);
  OrtStatus* (*SetSessionGraphOptimizationLevel)(OrtOptions* options, int level);
  OrtStatus* (*SetIntraOpNumThreads)(OrtOptions* options, int count);
  Gap<25, 30> gap_25;
  OrtStatus* (*SessionGetInputCount)(const OrtSession* session, size_t* out);
  OrtStatus* (*SessionGetOutputCount)(const OrtSession* session, size_t* out);
  Gap<32, 33> gap_32;
  OrtStatus* (*SessionGetInputTypeInfo)(const OrtSession* session, size_t index, OrtTypeInfo** out);
  Gap<34, 36> gap_34;
  OrtStatus* (*SessionGetInputName)(const OrtSession* session, size_t index, OrtDefaultAllocator* allocator,
                                    char** out);
  OrtStatus* (*SessionGetOutputName)(const OrtSession* session, size_t index, OrtDefaultAllocator* allocator,
                                     char** out);
  Gap<38, 49> gap_38;
  OrtStatus* (*CreateTensorWithDataAsOrtValue)(const OrtMemoryInfo* info, void* data, size_t size, const int64_t* dims,
                                               size_t rank, int element_type, OrtValue** out);
  Gap<50, 69> gap_50;
  OrtStatus* (*CreateCpuMemoryInfo)(int allocator_type, int memory_type, OrtMemoryInfo** out);
  Gap<70, 76> gap_70;
  OrtStatus* (*AllocatorFree)(OrtDefaultAllocator* allocator, void* memory);
  Gap<77, 78> gap_77;
  OrtStatus* (*GetAllocatorWithDefaultOptions)(OrtDefaultAllocator** out);
  Gap<79, 95> gap_79;
  void (*ReleaseSession)(OrtSession* session);
  void (*ReleaseValue)(OrtValue* value);
  Gap<97, 100> gap_97;
  void (*ReleaseSessionOptions)(OrtOptions* options);
};

}  // namespace stand_in

extern "C" const poolgrad::ort::OrtApiBase* OrtGetApiBase();

#endif  // TESTS_CANN_EP_ORT_API_H_
