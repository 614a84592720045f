// SPDX-License-Identifier: Apache-2.0

// The parts of CANN's ABI for single operators and models, and of GE's, that onnxruntime's CANN provider calls.
#ifndef TESTS_CANN_EP_CANN_H_
#define TESTS_CANN_EP_CANN_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "abi/acl.h"

struct aclTensorDesc;
struct aclDataBuffer;
struct aclopAttr;
struct aclmdlDesc;
struct aclmdlDataset;

struct aclmdlIODims {
  char name[128];
  size_t dimCount;
  int64_t dims[128];
};

#pragma GCC visibility push(default)
extern "C" {

aclError aclrtCreateEvent(aclrtEvent* event);
size_t aclDataTypeSize(aclDataType type);

aclTensorDesc* aclCreateTensorDesc(aclDataType type, int rank, const int64_t* dims, aclFormat format);
void aclDestroyTensorDesc(const aclTensorDesc* desc);
size_t aclGetTensorDescSize(const aclTensorDesc* desc);
size_t aclGetTensorDescNumDims(const aclTensorDesc* desc);
aclError aclGetTensorDescDimV2(const aclTensorDesc* desc, size_t index, int64_t* dim);
aclError aclSetTensorConst(aclTensorDesc* desc, void* data, size_t size);

aclDataBuffer* aclCreateDataBuffer(void* data, size_t size);
aclError aclDestroyDataBuffer(const aclDataBuffer* buffer);
void* aclGetDataBufferAddr(const aclDataBuffer* buffer);

aclopAttr* aclopCreateAttr();
void aclopDestroyAttr(const aclopAttr* attributes);
aclError aclopSetAttrBool(aclopAttr* attributes, const char* name, uint8_t value);
aclError aclopSetAttrInt(aclopAttr* attributes, const char* name, int64_t value);
aclError aclopSetAttrFloat(aclopAttr* attributes, const char* name, float value);
aclError aclopSetAttrListInt(aclopAttr* attributes, const char* name, int count, const int64_t* values);
aclError aclopSetAttrString(aclopAttr* attributes, const char* name, const char* value);
aclError aclopCompileAndExecute(const char* op, int input_count, const aclTensorDesc* const input_descs[],
                                const aclDataBuffer* const inputs[], int output_count,
                                const aclTensorDesc* const output_descs[], aclDataBuffer* const outputs[],
                                const aclopAttr* attributes, int engine, int compile, const char* path,
                                aclrtStream stream);

aclmdlDesc* aclmdlCreateDesc();
aclError aclmdlDestroyDesc(aclmdlDesc* desc);
aclError aclmdlGetDesc(aclmdlDesc* desc, uint32_t model);
size_t aclmdlGetNumInputs(aclmdlDesc* desc);
size_t aclmdlGetNumOutputs(aclmdlDesc* desc);
size_t aclmdlGetInputSizeByIndex(aclmdlDesc* desc, size_t index);
size_t aclmdlGetOutputSizeByIndex(aclmdlDesc* desc, size_t index);
aclError aclmdlGetOutputDims(const aclmdlDesc* desc, size_t index, aclmdlIODims* dims);
aclmdlDataset* aclmdlCreateDataset();
aclError aclmdlDestroyDataset(const aclmdlDataset* dataset);
aclError aclmdlAddDatasetBuffer(aclmdlDataset* dataset, aclDataBuffer* buffer);
aclDataBuffer* aclmdlGetDatasetBuffer(const aclmdlDataset* dataset, size_t index);
aclTensorDesc* aclmdlGetDatasetTensorDesc(const aclmdlDataset* dataset, size_t index);
aclError aclmdlLoadFromMem(const void* data, size_t size, uint32_t* model);
aclError aclmdlLoadFromFile(const char* path, uint32_t* model);
aclError aclmdlUnload(uint32_t model);
aclError aclmdlExecute(uint32_t model, const aclmdlDataset* inputs, aclmdlDataset* outputs);
aclError aclmdlExecuteAsync(uint32_t model, const aclmdlDataset* inputs, aclmdlDataset* outputs, aclrtStream stream);

}  // extern "C"

// Laid out as in GE's headers, because the callers destroy these objects. No signature below contains std::string, so
// that both string ABIs give the same symbols.
namespace ge {

using graphStatus = uint32_t;
constexpr graphStatus GRAPH_SUCCESS = 0;
constexpr graphStatus GRAPH_FAILED = 0xFFFFFFFF;

class AscendString {
 public:
  explicit AscendString(const char* text);
  bool operator<(const AscendString& other) const;
  const std::string& text() const { return *text_; }

 private:
  std::shared_ptr<std::string> text_;
};

struct ParsedModel;  // defined in graphs.cpp

class Graph {
 public:
  explicit Graph(const char* name);
  const std::shared_ptr<ParsedModel>& model() const { return model_; }

 private:
  std::shared_ptr<ParsedModel> model_;
};

struct ModelBufferData {
  std::shared_ptr<uint8_t> data;
  uint64_t length;
};

using Options = std::map<AscendString, AscendString>;

graphStatus aclgrphParseONNXFromMem(const char* data, size_t size, const Options& options, Graph& graph);
graphStatus aclgrphBuildInitialize(Options& options);
void aclgrphBuildFinalize();
graphStatus aclgrphBuildModel(const Graph& graph, const Options& options, ModelBufferData& model);
graphStatus aclgrphSaveModel(const char* path, const ModelBufferData& model);

}  // namespace ge
#pragma GCC visibility pop

#endif  // TESTS_CANN_EP_CANN_H_
