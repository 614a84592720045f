// SPDX-License-Identifier: Apache-2.0

// The part of onnxruntime's C ABI that the execution provider and the custom ops use, as of API version 24 (onnxruntime
// 1.24). Custom ops, and the code that they share with the provider, use members of API 19 only, or check the version
// first. onnxruntime's tables are append-only: a member keeps its slot in every later release, so these declarations
// match all of them. The official headers, which no Python package contains, are not needed to build.
//
// Names are onnxruntime's; the namespace separates them from the official headers. abi/ort_check.cpp compares the slots
// with these headers if they are available. Unused members are gaps.
#ifndef POOLGRAD_ABI_ORT_H_
#define POOLGRAD_ABI_ORT_H_

#include <cstddef>
#include <cstdint>

namespace poolgrad::ort {

constexpr std::uint32_t kApiVersion = 24;
constexpr std::uint32_t kOldestCustomOpApiVersion = 19;
constexpr std::uint32_t kShapeReferenceApiVersion = 24;  // GetTensorElementTypeAndShapeDataReference

// The unused slots [From, To) of a table.
template <std::size_t From, std::size_t To>
struct Gap {
  void* slots[To - From];
};

struct OrtStatus;
struct OrtLogger;
struct OrtSessionOptions;
struct OrtKeyValuePairs;
struct OrtHardwareDevice;
struct OrtEpDevice;
struct OrtEpGraphSupportInfo;
struct OrtGraph;
struct OrtNode;
struct OrtOpAttr;
struct OrtValue;
struct OrtValueInfo;
struct OrtTypeInfo;
struct OrtTensorTypeAndShapeInfo;
struct OrtKernelInfo;
struct OrtKernelContext;
struct OrtKernelDef;
struct OrtKernelDefBuilder;
struct OrtKernelRegistry;
struct OrtMemoryInfo;
struct OrtMemoryDevice;
struct OrtSyncStream;
struct OrtRunOptions;
struct OrtCustomOpDomain;
struct OrtShapeInferContext;

enum OrtErrorCode : int {
  ORT_FAIL = 1,
  ORT_INVALID_ARGUMENT = 2,
};

enum OrtLoggingLevel : int {
  ORT_LOGGING_LEVEL_INFO = 1,
  ORT_LOGGING_LEVEL_WARNING = 2,
  ORT_LOGGING_LEVEL_ERROR = 3,
};

enum OrtHardwareDeviceType : int {
  OrtHardwareDeviceType_CPU = 0,
  OrtHardwareDeviceType_NPU = 2,
};

enum OrtMemoryInfoDeviceType : int {
  OrtMemoryInfoDeviceType_CPU = 0,
  OrtMemoryInfoDeviceType_NPU = 3,
};

enum OrtDeviceMemoryType : int {
  OrtDeviceMemoryType_DEFAULT = 0,
};

enum OrtAllocatorType : int {
  OrtDeviceAllocator = 0,
};

enum OrtMemType : int {
  OrtMemTypeCPUInput = -2,
  OrtMemTypeCPUOutput = -1,
  OrtMemTypeDefault = 0,
};

enum OrtOpAttrType : int {
  ORT_OP_ATTR_INT = 1,
  ORT_OP_ATTR_INTS = 2,
  ORT_OP_ATTR_FLOAT = 3,
  ORT_OP_ATTR_STRING = 5,
};

enum OrtCustomOpInputOutputCharacteristic : int {
  INPUT_OUTPUT_REQUIRED = 0,
};

enum ONNXTensorElementDataType : int {
  ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED = 0,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT = 1,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32 = 6,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64 = 7,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16 = 10,
  ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16 = 16,
};

struct OrtEpApi;
struct OrtCustomOp;

struct OrtApi {
  OrtStatus* (*CreateStatus)(OrtErrorCode code, const char* message);
  OrtErrorCode (*GetErrorCode)(const OrtStatus* status);
  const char* (*GetErrorMessage)(const OrtStatus* status);
  Gap<3, 26> gap_3;
  OrtStatus* (*CreateCustomOpDomain)(const char* domain, OrtCustomOpDomain** out);
  OrtStatus* (*CustomOpDomain_Add)(OrtCustomOpDomain* domain, const OrtCustomOp* op);
  OrtStatus* (*AddCustomOpDomain)(OrtSessionOptions* options, OrtCustomOpDomain* domain);
  Gap<29, 51> gap_29;
  OrtStatus* (*GetTensorMutableData)(OrtValue* value, void** out);
  Gap<52, 55> gap_52;
  OrtStatus* (*CastTypeInfoToTensorInfo)(const OrtTypeInfo* type_info, const OrtTensorTypeAndShapeInfo** out);
  Gap<56, 57> gap_56;
  OrtStatus* (*CreateTensorTypeAndShapeInfo)(OrtTensorTypeAndShapeInfo** out);
  OrtStatus* (*SetTensorElementType)(OrtTensorTypeAndShapeInfo* info, ONNXTensorElementDataType type);
  OrtStatus* (*SetDimensions)(OrtTensorTypeAndShapeInfo* info, const std::int64_t* dims, std::size_t count);
  OrtStatus* (*GetTensorElementType)(const OrtTensorTypeAndShapeInfo* info, ONNXTensorElementDataType* out);
  OrtStatus* (*GetDimensionsCount)(const OrtTensorTypeAndShapeInfo* info, std::size_t* out);
  OrtStatus* (*GetDimensions)(const OrtTensorTypeAndShapeInfo* info, std::int64_t* dims, std::size_t count);
  OrtStatus* (*GetSymbolicDimensions)(const OrtTensorTypeAndShapeInfo* info, const char** names, std::size_t count);
  Gap<64, 65> gap_64;
  OrtStatus* (*GetTensorTypeAndShape)(const OrtValue* value, OrtTensorTypeAndShapeInfo** out);
  Gap<66, 72> gap_66;
  OrtStatus* (*MemoryInfoGetId)(const OrtMemoryInfo* info, int* out);
  Gap<73, 85> gap_73;
  OrtStatus* (*KernelInfoGetAttribute_float)(const OrtKernelInfo* info, const char* name, float* out);
  OrtStatus* (*KernelInfoGetAttribute_int64)(const OrtKernelInfo* info, const char* name, std::int64_t* out);
  OrtStatus* (*KernelInfoGetAttribute_string)(const OrtKernelInfo* info, const char* name, char* out,
                                              std::size_t* size);
  OrtStatus* (*KernelContext_GetInputCount)(const OrtKernelContext* context, std::size_t* out);
  Gap<89, 90> gap_89;
  OrtStatus* (*KernelContext_GetInput)(const OrtKernelContext* context, std::size_t index, const OrtValue** out);
  OrtStatus* (*KernelContext_GetOutput)(OrtKernelContext* context, std::size_t index, const std::int64_t* dims,
                                        std::size_t rank, OrtValue** out);
  Gap<92, 93> gap_92;
  void (*ReleaseStatus)(OrtStatus* status);
  void (*ReleaseMemoryInfo)(OrtMemoryInfo* info);
  Gap<95, 98> gap_95;
  void (*ReleaseTypeInfo)(OrtTypeInfo* info);
  void (*ReleaseTensorTypeAndShapeInfo)(OrtTensorTypeAndShapeInfo* info);
  Gap<100, 101> gap_100;
  void (*ReleaseCustomOpDomain)(OrtCustomOpDomain* domain);
  Gap<102, 163> gap_102;
  OrtStatus* (*KernelInfoGetAttributeArray_int64)(const OrtKernelInfo* info, const char* name, std::int64_t* out,
                                                  std::size_t* size);
  Gap<164, 193> gap_164;
  OrtStatus* (*KernelContext_GetGPUComputeStream)(const OrtKernelContext* context, void** out);
  Gap<194, 230> gap_194;
  OrtStatus* (*KernelInfo_GetInputCount)(const OrtKernelInfo* info, std::size_t* out);
  OrtStatus* (*KernelInfo_GetOutputCount)(const OrtKernelInfo* info, std::size_t* out);
  Gap<232, 234> gap_232;
  OrtStatus* (*KernelInfo_GetInputTypeInfo)(const OrtKernelInfo* info, std::size_t index, OrtTypeInfo** out);
  OrtStatus* (*KernelInfo_GetOutputTypeInfo)(const OrtKernelInfo* info, std::size_t index, OrtTypeInfo** out);
  Gap<236, 237> gap_236;
  OrtStatus* (*HasSessionConfigEntry)(const OrtSessionOptions* options, const char* key, int* out);
  OrtStatus* (*GetSessionConfigEntry)(const OrtSessionOptions* options, const char* key, char* out, std::size_t* size);
  Gap<239, 244> gap_239;
  OrtStatus* (*KernelInfo_GetNodeName)(const OrtKernelInfo* info, char* out, std::size_t* size);
  OrtStatus* (*KernelInfo_GetLogger)(const OrtKernelInfo* info, const OrtLogger** out);
  Gap<246, 247> gap_246;
  OrtStatus* (*Logger_LogMessage)(const OrtLogger* logger, OrtLoggingLevel level, const char* message, const char* file,
                                  int line, const char* function);
  Gap<248, 268> gap_248;
  OrtStatus* (*ShapeInferContext_GetInputTypeShape)(const OrtShapeInferContext* context, std::size_t index,
                                                    OrtTensorTypeAndShapeInfo** out);
  OrtStatus* (*ShapeInferContext_GetAttribute)(const OrtShapeInferContext* context, const char* name,
                                               const OrtOpAttr** out);
  OrtStatus* (*ShapeInferContext_SetOutputTypeShape)(const OrtShapeInferContext* context, std::size_t index,
                                                     const OrtTensorTypeAndShapeInfo* info);
  OrtStatus* (*SetSymbolicDimensions)(OrtTensorTypeAndShapeInfo* info, const char** names, std::size_t count);
  OrtStatus* (*ReadOpAttr)(const OrtOpAttr* attribute, OrtOpAttrType type, void* data, std::size_t bytes,
                           std::size_t* out_bytes);
  Gap<273, 274> gap_273;
  OrtStatus* (*KernelContext_ParallelFor)(const OrtKernelContext* context, void (*run)(void* data, std::size_t index),
                                          std::size_t count, std::size_t batches, void* data);
  Gap<275, 290> gap_275;
  OrtStatus* (*GetValueInfoTypeInfo)(const OrtValueInfo* value_info, const OrtTypeInfo** out);
  Gap<291, 295> gap_291;
  void (*CreateKeyValuePairs)(OrtKeyValuePairs** out);
  void (*AddKeyValuePair)(OrtKeyValuePairs* pairs, const char* key, const char* value);
  const char* (*GetKeyValue)(const OrtKeyValuePairs* pairs, const char* key);
  void (*GetKeyValuePairs)(const OrtKeyValuePairs* pairs, const char* const** keys, const char* const** values,
                           std::size_t* count);
  Gap<299, 300> gap_299;
  void (*ReleaseKeyValuePairs)(OrtKeyValuePairs* pairs);
  Gap<301, 307> gap_301;
  OrtHardwareDeviceType (*HardwareDevice_Type)(const OrtHardwareDevice* device);
  std::uint32_t (*HardwareDevice_VendorId)(const OrtHardwareDevice* device);
  Gap<309, 317> gap_309;
  const OrtEpApi* (*GetEpApi)();
  OrtStatus* (*GetTensorSizeInBytes)(const OrtValue* value, std::size_t* out);
  Gap<319, 320> gap_319;
  OrtStatus* (*CreateMemoryInfo_V2)(const char* name, OrtMemoryInfoDeviceType device_type, std::uint32_t vendor_id,
                                    std::int32_t device_id, OrtDeviceMemoryType memory_type, std::size_t alignment,
                                    OrtAllocatorType allocator_type, OrtMemoryInfo** out);
  Gap<321, 344> gap_321;
  OrtStatus* (*Graph_GetNumNodes)(const OrtGraph* graph, std::size_t* count);
  OrtStatus* (*Graph_GetNodes)(const OrtGraph* graph, const OrtNode** nodes, std::size_t count);
  Gap<346, 349> gap_346;
  OrtStatus* (*Node_GetName)(const OrtNode* node, const char** out);
  OrtStatus* (*Node_GetOperatorType)(const OrtNode* node, const char** out);
  Gap<351, 353> gap_351;
  OrtStatus* (*Node_GetNumInputs)(const OrtNode* node, std::size_t* out);
  OrtStatus* (*Node_GetInputs)(const OrtNode* node, const OrtValueInfo** inputs, std::size_t count);
  OrtStatus* (*Node_GetNumOutputs)(const OrtNode* node, std::size_t* out);
  OrtStatus* (*Node_GetOutputs)(const OrtNode* node, const OrtValueInfo** outputs, std::size_t count);
  Gap<357, 361> gap_357;
  OrtStatus* (*Node_GetAttributeByName)(const OrtNode* node, const char* name, const OrtOpAttr** out);
  Gap<362, 379> gap_362;
  OrtStatus* (*GetSessionOptionsConfigEntries)(const OrtSessionOptions* options, OrtKeyValuePairs** out);
  Gap<380, 384> gap_380;
  void* (*SyncStream_GetHandle)(OrtSyncStream* stream);
  Gap<385, 393> gap_385;
  OrtStatus* (*KernelInfo_GetOperatorType)(const OrtKernelInfo* info, char* out, std::size_t* size);
  Gap<394, 414> gap_394;
  OrtStatus* (*GetTensorElementTypeAndShapeDataReference)(const OrtValue* value, ONNXTensorElementDataType* type,
                                                          const std::int64_t** dims, std::size_t* rank);
};

struct OrtEpFactory;
struct OrtKernelImpl;
using OrtKernelCreateFunc = OrtStatus* (*)(void* state, const OrtKernelInfo* info, OrtKernelImpl** out);

struct OrtEpApi {
  OrtStatus* (*CreateEpDevice)(OrtEpFactory* factory, const OrtHardwareDevice* hardware_device,
                               const OrtKeyValuePairs* metadata, const OrtKeyValuePairs* options, OrtEpDevice** out);
  void (*ReleaseEpDevice)(OrtEpDevice* device);
  Gap<2, 3> gap_2;
  OrtStatus* (*EpGraphSupportInfo_AddSingleNode)(OrtEpGraphSupportInfo* support, const OrtNode* node);
  Gap<4, 5> gap_4;
  OrtStatus* (*EpDevice_AddAllocatorInfo)(OrtEpDevice* device, const OrtMemoryInfo* info);
  Gap<6, 7> gap_6;
  const OrtMemoryDevice* (*Value_GetMemoryDevice)(const OrtValue* value);
  Gap<8, 9> gap_8;
  OrtMemoryInfoDeviceType (*MemoryDevice_GetDeviceType)(const OrtMemoryDevice* device);
  Gap<10, 11> gap_10;
  std::uint32_t (*MemoryDevice_GetVendorId)(const OrtMemoryDevice* device);
  std::uint32_t (*MemoryDevice_GetDeviceId)(const OrtMemoryDevice* device);
  Gap<13, 16> gap_13;
  OrtStatus* (*CreateHardwareDevice)(OrtHardwareDeviceType type, std::uint32_t vendor_id, std::uint32_t device_id,
                                     const char* vendor_name, const OrtKeyValuePairs* metadata,
                                     OrtHardwareDevice** out);
  void (*ReleaseHardwareDevice)(OrtHardwareDevice* device);
  OrtStatus* (*CreateKernelRegistry)(OrtKernelRegistry** out);
  void (*ReleaseKernelRegistry)(OrtKernelRegistry* registry);
  OrtStatus* (*KernelRegistry_AddKernel)(OrtKernelRegistry* registry, const OrtKernelDef* kernel_def,
                                         OrtKernelCreateFunc create, void* state);
  OrtStatus* (*CreateKernelDefBuilder)(OrtKernelDefBuilder** out);
  void (*ReleaseKernelDefBuilder)(OrtKernelDefBuilder* builder);
  OrtStatus* (*KernelDefBuilder_SetOperatorType)(OrtKernelDefBuilder* builder, const char* op_type);
  OrtStatus* (*KernelDefBuilder_SetDomain)(OrtKernelDefBuilder* builder, const char* domain);
  OrtStatus* (*KernelDefBuilder_SetSinceVersion)(OrtKernelDefBuilder* builder, int first, int last);
  OrtStatus* (*KernelDefBuilder_SetExecutionProvider)(OrtKernelDefBuilder* builder, const char* ep_name);
  OrtStatus* (*KernelDefBuilder_SetInputMemType)(OrtKernelDefBuilder* builder, std::size_t input, OrtMemType type);
  OrtStatus* (*KernelDefBuilder_SetOutputMemType)(OrtKernelDefBuilder* builder, std::size_t output, OrtMemType type);
  Gap<29, 30> gap_29;
  OrtStatus* (*KernelDefBuilder_AddInputOutputAliases)(OrtKernelDefBuilder* builder, const int* inputs,
                                                       const int* outputs, std::size_t count);
  Gap<31, 32> gap_31;
  OrtStatus* (*KernelDefBuilder_Build)(OrtKernelDefBuilder* builder, OrtKernelDef** out);
  void (*ReleaseKernelDef)(OrtKernelDef* kernel_def);
  Gap<34, 41> gap_34;
  OrtStatus* (*EpGraphSupportInfo_LookUpKernel)(OrtEpGraphSupportInfo* support, const OrtNode* node,
                                                const OrtKernelDef** out);
};

struct OrtApiBase {
  const OrtApi* (*GetApi)(std::uint32_t version);
  const char* (*GetVersionString)();
};

// The provider fills in the structures below. They have the members of API 24: onnxruntime reads those of the version
// in the first member. A null optional member means "not implemented".
struct OrtAllocator {
  std::uint32_t version;
  void* (*Alloc)(OrtAllocator* self, std::size_t size);
  void (*Free)(OrtAllocator* self, void* memory);
  const OrtMemoryInfo* (*Info)(const OrtAllocator* self);
  Gap<4, 6> gap_4;
  void* (*AllocOnStream)(OrtAllocator* self, std::size_t size, OrtSyncStream* stream);
};

struct OrtDataTransferImpl {
  std::uint32_t ort_version_supported;
  void (*Release)(OrtDataTransferImpl* self);
  bool (*CanCopy)(const OrtDataTransferImpl* self, const OrtMemoryDevice* from, const OrtMemoryDevice* to);
  OrtStatus* (*CopyTensors)(OrtDataTransferImpl* self, const OrtValue** from, OrtValue** to, OrtSyncStream** streams,
                            std::size_t count);
};

struct OrtEp {
  std::uint32_t ort_version_supported;
  const char* (*GetName)(const OrtEp* self);
  OrtStatus* (*GetCapability)(OrtEp* self, const OrtGraph* graph, OrtEpGraphSupportInfo* support);
  Gap<3, 8> gap_3;
  OrtStatus* (*OnRunStart)(OrtEp* self, const OrtRunOptions* options);
  OrtStatus* (*OnRunEnd)(OrtEp* self, const OrtRunOptions* options, bool synchronize);
  OrtStatus* (*CreateAllocator)(OrtEp* self, const OrtMemoryInfo* info, OrtAllocator** out);
  Gap<11, 13> gap_11;
  OrtStatus* (*GetKernelRegistry)(OrtEp* self, const OrtKernelRegistry** out);
  Gap<14, 15> gap_14;
};

struct OrtEpFactory {
  std::uint32_t ort_version_supported;
  const char* (*GetName)(const OrtEpFactory* self);
  const char* (*GetVendor)(const OrtEpFactory* self);
  OrtStatus* (*GetSupportedDevices)(OrtEpFactory* self, const OrtHardwareDevice* const* devices,
                                    std::size_t device_count, OrtEpDevice** ep_devices, std::size_t max_ep_devices,
                                    std::size_t* ep_device_count);
  OrtStatus* (*CreateEp)(OrtEpFactory* self, const OrtHardwareDevice* const* devices,
                         const OrtKeyValuePairs* const* metadata, std::size_t device_count,
                         const OrtSessionOptions* session_options, const OrtLogger* logger, OrtEp** out);
  void (*ReleaseEp)(OrtEpFactory* self, OrtEp* ep);
  std::uint32_t (*GetVendorId)(const OrtEpFactory* self);
  const char* (*GetVersion)(const OrtEpFactory* self);
  Gap<8, 9> gap_8;
  OrtStatus* (*CreateAllocator)(OrtEpFactory* self, const OrtMemoryInfo* info, const OrtKeyValuePairs* options,
                                OrtAllocator** out);
  void (*ReleaseAllocator)(OrtEpFactory* self, OrtAllocator* allocator);
  OrtStatus* (*CreateDataTransfer)(OrtEpFactory* self, OrtDataTransferImpl** out);
  bool (*IsStreamAware)(const OrtEpFactory* self);
  Gap<13, 18> gap_13;
};

struct OrtKernelImpl {
  std::uint32_t ort_version_supported;
  std::uint32_t flags;
  OrtStatus* (*Compute)(OrtKernelImpl* self, OrtKernelContext* context);
  void (*Release)(OrtKernelImpl* self);
  Gap<3, 5> gap_3;
};

// With the members of API 19, which no API up to 29 has changed. Members after InferOutputShapeFn are optional.
struct OrtCustomOp {
  std::uint32_t version;
  Gap<1, 2> gap_1;
  const char* (*GetName)(const OrtCustomOp* self);
  const char* (*GetExecutionProviderType)(const OrtCustomOp* self);
  ONNXTensorElementDataType (*GetInputType)(const OrtCustomOp* self, std::size_t index);
  std::size_t (*GetInputTypeCount)(const OrtCustomOp* self);
  ONNXTensorElementDataType (*GetOutputType)(const OrtCustomOp* self, std::size_t index);
  std::size_t (*GetOutputTypeCount)(const OrtCustomOp* self);
  Gap<8, 9> gap_8;
  void (*KernelDestroy)(void* kernel);
  OrtCustomOpInputOutputCharacteristic (*GetInputCharacteristic)(const OrtCustomOp* self, std::size_t index);
  OrtCustomOpInputOutputCharacteristic (*GetOutputCharacteristic)(const OrtCustomOp* self, std::size_t index);
  OrtMemType (*GetInputMemoryType)(const OrtCustomOp* self, std::size_t index);
  Gap<13, 17> gap_13;
  OrtStatus* (*CreateKernelV2)(const OrtCustomOp* self, const OrtApi* api, const OrtKernelInfo* info, void** out);
  OrtStatus* (*KernelComputeV2)(void* kernel, OrtKernelContext* context);
  OrtStatus* (*InferOutputShapeFn)(const OrtCustomOp* self, OrtShapeInferContext* context);
  Gap<20, 26> gap_20;
};

// X(table, member, slot): the slot of each member in onnxruntime; slot n is at byte 8n.
#define POOLGRAD_ORT_SLOTS(X)                               \
  X(OrtApiBase, GetApi, 0)                                  \
  X(OrtApiBase, GetVersionString, 1)                        \
  X(OrtApi, CreateStatus, 0)                                \
  X(OrtApi, GetErrorCode, 1)                                \
  X(OrtApi, GetErrorMessage, 2)                             \
  X(OrtApi, CreateCustomOpDomain, 26)                       \
  X(OrtApi, CustomOpDomain_Add, 27)                         \
  X(OrtApi, AddCustomOpDomain, 28)                          \
  X(OrtApi, GetTensorMutableData, 51)                       \
  X(OrtApi, CastTypeInfoToTensorInfo, 55)                   \
  X(OrtApi, CreateTensorTypeAndShapeInfo, 57)               \
  X(OrtApi, SetTensorElementType, 58)                       \
  X(OrtApi, SetDimensions, 59)                              \
  X(OrtApi, GetTensorElementType, 60)                       \
  X(OrtApi, GetDimensionsCount, 61)                         \
  X(OrtApi, GetDimensions, 62)                              \
  X(OrtApi, GetSymbolicDimensions, 63)                      \
  X(OrtApi, GetTensorTypeAndShape, 65)                      \
  X(OrtApi, MemoryInfoGetId, 72)                            \
  X(OrtApi, KernelInfoGetAttribute_float, 85)               \
  X(OrtApi, KernelInfoGetAttribute_int64, 86)               \
  X(OrtApi, KernelInfoGetAttribute_string, 87)              \
  X(OrtApi, KernelContext_GetInputCount, 88)                \
  X(OrtApi, KernelContext_GetInput, 90)                     \
  X(OrtApi, KernelContext_GetOutput, 91)                    \
  X(OrtApi, ReleaseStatus, 93)                              \
  X(OrtApi, ReleaseMemoryInfo, 94)                          \
  X(OrtApi, ReleaseTypeInfo, 98)                            \
  X(OrtApi, ReleaseTensorTypeAndShapeInfo, 99)              \
  X(OrtApi, ReleaseCustomOpDomain, 101)                     \
  X(OrtApi, KernelInfoGetAttributeArray_int64, 163)         \
  X(OrtApi, KernelContext_GetGPUComputeStream, 193)         \
  X(OrtApi, KernelInfo_GetInputCount, 230)                  \
  X(OrtApi, KernelInfo_GetOutputCount, 231)                 \
  X(OrtApi, KernelInfo_GetInputTypeInfo, 234)               \
  X(OrtApi, KernelInfo_GetOutputTypeInfo, 235)              \
  X(OrtApi, HasSessionConfigEntry, 237)                     \
  X(OrtApi, GetSessionConfigEntry, 238)                     \
  X(OrtApi, KernelInfo_GetNodeName, 244)                    \
  X(OrtApi, KernelInfo_GetLogger, 245)                      \
  X(OrtApi, Logger_LogMessage, 247)                         \
  X(OrtApi, ShapeInferContext_GetInputTypeShape, 268)       \
  X(OrtApi, ShapeInferContext_GetAttribute, 269)            \
  X(OrtApi, ShapeInferContext_SetOutputTypeShape, 270)      \
  X(OrtApi, SetSymbolicDimensions, 271)                     \
  X(OrtApi, ReadOpAttr, 272)                                \
  X(OrtApi, KernelContext_ParallelFor, 274)                 \
  X(OrtApi, GetValueInfoTypeInfo, 290)                      \
  X(OrtApi, CreateKeyValuePairs, 295)                       \
  X(OrtApi, AddKeyValuePair, 296)                           \
  X(OrtApi, GetKeyValue, 297)                               \
  X(OrtApi, GetKeyValuePairs, 298)                          \
  X(OrtApi, ReleaseKeyValuePairs, 300)                      \
  X(OrtApi, HardwareDevice_Type, 307)                       \
  X(OrtApi, HardwareDevice_VendorId, 308)                   \
  X(OrtApi, GetEpApi, 317)                                  \
  X(OrtApi, GetTensorSizeInBytes, 318)                      \
  X(OrtApi, CreateMemoryInfo_V2, 320)                       \
  X(OrtApi, Graph_GetNumNodes, 344)                         \
  X(OrtApi, Graph_GetNodes, 345)                            \
  X(OrtApi, Node_GetName, 349)                              \
  X(OrtApi, Node_GetOperatorType, 350)                      \
  X(OrtApi, Node_GetNumInputs, 353)                         \
  X(OrtApi, Node_GetInputs, 354)                            \
  X(OrtApi, Node_GetNumOutputs, 355)                        \
  X(OrtApi, Node_GetOutputs, 356)                           \
  X(OrtApi, Node_GetAttributeByName, 361)                   \
  X(OrtApi, GetSessionOptionsConfigEntries, 379)            \
  X(OrtApi, SyncStream_GetHandle, 384)                      \
  X(OrtApi, KernelInfo_GetOperatorType, 393)                \
  X(OrtApi, GetTensorElementTypeAndShapeDataReference, 414) \
  X(OrtEpApi, CreateEpDevice, 0)                            \
  X(OrtEpApi, ReleaseEpDevice, 1)                           \
  X(OrtEpApi, EpGraphSupportInfo_AddSingleNode, 3)          \
  X(OrtEpApi, EpDevice_AddAllocatorInfo, 5)                 \
  X(OrtEpApi, Value_GetMemoryDevice, 7)                     \
  X(OrtEpApi, MemoryDevice_GetDeviceType, 9)                \
  X(OrtEpApi, MemoryDevice_GetVendorId, 11)                 \
  X(OrtEpApi, MemoryDevice_GetDeviceId, 12)                 \
  X(OrtEpApi, CreateHardwareDevice, 16)                     \
  X(OrtEpApi, ReleaseHardwareDevice, 17)                    \
  X(OrtEpApi, CreateKernelRegistry, 18)                     \
  X(OrtEpApi, ReleaseKernelRegistry, 19)                    \
  X(OrtEpApi, KernelRegistry_AddKernel, 20)                 \
  X(OrtEpApi, CreateKernelDefBuilder, 21)                   \
  X(OrtEpApi, ReleaseKernelDefBuilder, 22)                  \
  X(OrtEpApi, KernelDefBuilder_SetOperatorType, 23)         \
  X(OrtEpApi, KernelDefBuilder_SetDomain, 24)               \
  X(OrtEpApi, KernelDefBuilder_SetSinceVersion, 25)         \
  X(OrtEpApi, KernelDefBuilder_SetExecutionProvider, 26)    \
  X(OrtEpApi, KernelDefBuilder_SetInputMemType, 27)         \
  X(OrtEpApi, KernelDefBuilder_SetOutputMemType, 28)        \
  X(OrtEpApi, KernelDefBuilder_AddInputOutputAliases, 30)   \
  X(OrtEpApi, KernelDefBuilder_Build, 32)                   \
  X(OrtEpApi, ReleaseKernelDef, 33)                         \
  X(OrtEpApi, EpGraphSupportInfo_LookUpKernel, 41)          \
  X(OrtEp, GetName, 1)                                      \
  X(OrtEp, GetCapability, 2)                                \
  X(OrtEp, OnRunStart, 8)                                   \
  X(OrtEp, OnRunEnd, 9)                                     \
  X(OrtEp, CreateAllocator, 10)                             \
  X(OrtEp, GetKernelRegistry, 13)                           \
  X(OrtEpFactory, GetName, 1)                               \
  X(OrtEpFactory, GetVendor, 2)                             \
  X(OrtEpFactory, GetSupportedDevices, 3)                   \
  X(OrtEpFactory, CreateEp, 4)                              \
  X(OrtEpFactory, ReleaseEp, 5)                             \
  X(OrtEpFactory, GetVendorId, 6)                           \
  X(OrtEpFactory, GetVersion, 7)                            \
  X(OrtEpFactory, CreateAllocator, 9)                       \
  X(OrtEpFactory, ReleaseAllocator, 10)                     \
  X(OrtEpFactory, CreateDataTransfer, 11)                   \
  X(OrtEpFactory, IsStreamAware, 12)                        \
  X(OrtAllocator, Alloc, 1)                                 \
  X(OrtAllocator, Free, 2)                                  \
  X(OrtAllocator, Info, 3)                                  \
  X(OrtDataTransferImpl, Release, 1)                        \
  X(OrtDataTransferImpl, CanCopy, 2)                        \
  X(OrtDataTransferImpl, CopyTensors, 3)                    \
  X(OrtKernelImpl, Compute, 1)                              \
  X(OrtKernelImpl, Release, 2)                              \
  X(OrtCustomOp, GetName, 2)                                \
  X(OrtCustomOp, GetExecutionProviderType, 3)               \
  X(OrtCustomOp, GetInputType, 4)                           \
  X(OrtCustomOp, GetInputTypeCount, 5)                      \
  X(OrtCustomOp, GetOutputType, 6)                          \
  X(OrtCustomOp, GetOutputTypeCount, 7)                     \
  X(OrtCustomOp, KernelDestroy, 9)                          \
  X(OrtCustomOp, GetInputCharacteristic, 10)                \
  X(OrtCustomOp, GetOutputCharacteristic, 11)               \
  X(OrtCustomOp, GetInputMemoryType, 12)                    \
  X(OrtCustomOp, CreateKernelV2, 17)                        \
  X(OrtCustomOp, KernelComputeV2, 18)                       \
  X(OrtCustomOp, InferOutputShapeFn, 19)

#define POOLGRAD_ORT_CHECK_SLOT(table, member, slot) static_assert(offsetof(table, member) == 8 * (slot));
POOLGRAD_ORT_SLOTS(POOLGRAD_ORT_CHECK_SLOT)
#undef POOLGRAD_ORT_CHECK_SLOT

static_assert(sizeof(OrtEp) == 120, "size of OrtEp in API 24");
static_assert(sizeof(OrtEpFactory) == 144, "size of OrtEpFactory in API 24");
static_assert(sizeof(OrtAllocator) == 56, "size of OrtAllocator in API 24");
static_assert(sizeof(OrtDataTransferImpl) == 32, "size of OrtDataTransferImpl in API 24");
static_assert(sizeof(OrtKernelImpl) == 40, "size of OrtKernelImpl in API 24");
static_assert(sizeof(OrtCustomOp) == 208, "size of OrtCustomOp in API 19 to 29");

}  // namespace poolgrad::ort

#endif  // POOLGRAD_ABI_ORT_H_
