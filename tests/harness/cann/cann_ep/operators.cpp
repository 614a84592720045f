// SPDX-License-Identifier: Apache-2.0

// The single operators that the CANN provider calls. Each is computed by the ONNX operator with the same semantics.

#include <algorithm>
#include <mutex>
#include <stdexcept>

#include "cann.h"
#include "element_types.h"
#include "model_runs.h"
#include "onnx_node.h"

struct aclTensorDesc {
  aclDataType type;
  std::vector<int64_t> dims;
};

struct aclDataBuffer {
  void* data;
  size_t size;
};

struct aclopAttr {
  std::map<std::string, stand_in::OnnxAttribute> values;
};

namespace stand_in {
namespace {

using Ints = std::vector<int64_t>;

TensorType TypeOf(const aclTensorDesc& desc) { return {OnnxType(desc.type), desc.dims}; }

const Ints& ListOf(const aclopAttr& attributes, const char* name) { return std::get<Ints>(attributes.values.at(name)); }

// Without the batch and the channels.
Ints Spatial(const Ints& values) { return {values.begin() + 2, values.end()}; }

OnnxNode Convolution(const aclopAttr& attributes) {
  return {"Conv",
          {{"strides", Spatial(ListOf(attributes, "strides"))},
           {"dilations", Spatial(ListOf(attributes, "dilations"))},
           {"pads", ListOf(attributes, "pads")},
           {"group", attributes.values.at("group")}}};
}

// Throws for an operator that no test uses.
OnnxNode NodeOf(const std::string& op, const aclopAttr& attributes, const TensorType& output) {
  static const char* const kSameName[] = {"Abs", "Add", "Ceil", "Cos",        "Div",   "Erf", "Exp",  "Floor", "Log",
                                          "Mul", "Neg", "Relu", "Reciprocal", "Round", "Sin", "Sqrt", "Sub"};
  const auto same = [&](const char* name) { return op == name; };
  if (std::any_of(std::begin(kSameName), std::end(kSameName), same)) return {op, {}};
  if (op == "BatchMatMul") return {"MatMul", {}};
  if (op == "BroadcastToD") return {"Expand", {}, {ListOf(attributes, "shape")}};
  if (op == "Cast") return {"Cast", {{"to", int64_t{output.element_type}}}};
  if (op == "TransposeD") return {"Transpose", {{"perm", ListOf(attributes, "perm")}}};
  if (op == "Conv2D" || op == "Conv3D") return Convolution(attributes);
  throw std::runtime_error("the stand-in for CANN has no operator " + op);
}

std::shared_ptr<const CpuModel> CachedModel(const std::string& onnx) {
  static std::mutex mutex;
  static auto* const models = new std::map<std::string, std::shared_ptr<const CpuModel>>;
  const std::lock_guard lock(mutex);
  std::shared_ptr<const CpuModel>& model = (*models)[onnx];
  if (model == nullptr) model = std::make_shared<CpuModel>(onnx);
  return model;
}

void Execute(const std::string& op, const std::vector<Operand>& inputs, const std::vector<Operand>& outputs,
             const aclopAttr& attributes, aclrtStream stream) {
  std::vector<Operand> given;
  std::vector<int> input_types;
  std::vector<int> output_types;
  for (const Operand& input : inputs) {
    input_types.push_back(input.type.element_type);
    if (input.type.element_type != 0) given.push_back(input);
  }
  for (const Operand& output : outputs) output_types.push_back(output.type.element_type);
  const std::string onnx = OneNodeModel(NodeOf(op, attributes, outputs.at(0).type), input_types, output_types);
  Launch(stream, CachedModel(onnx), std::move(given), outputs);
}

std::vector<Operand> Operands(int count, const aclTensorDesc* const descs[], const aclDataBuffer* const buffers[]) {
  std::vector<Operand> operands;
  for (int index = 0; index < count; ++index) operands.push_back({buffers[index]->data, TypeOf(*descs[index])});
  return operands;
}

}  // namespace
}  // namespace stand_in

using namespace stand_in;

aclTensorDesc* aclCreateTensorDesc(aclDataType type, int rank, const int64_t* dims, aclFormat /*format*/) {
  return new aclTensorDesc{type, Ints(dims, dims + rank)};
}

void aclDestroyTensorDesc(const aclTensorDesc* desc) { delete desc; }

size_t aclGetTensorDescSize(const aclTensorDesc* desc) { return ByteSize(TypeOf(*desc)); }

size_t aclGetTensorDescNumDims(const aclTensorDesc* desc) { return desc->dims.size(); }

aclError aclGetTensorDescDimV2(const aclTensorDesc* desc, size_t index, int64_t* dim) {
  if (index >= desc->dims.size()) return ACL_ERROR_INVALID_PARAM;
  *dim = desc->dims[index];
  return ACL_SUCCESS;
}

// For operators that NodeOf does not support, such as Fill.
aclError aclSetTensorConst(aclTensorDesc* /*desc*/, void* /*data*/, size_t /*size*/) { return ACL_SUCCESS; }

aclDataBuffer* aclCreateDataBuffer(void* data, size_t size) { return new aclDataBuffer{data, size}; }

aclError aclDestroyDataBuffer(const aclDataBuffer* buffer) {
  delete buffer;
  return ACL_SUCCESS;
}

void* aclGetDataBufferAddr(const aclDataBuffer* buffer) { return buffer->data; }

aclopAttr* aclopCreateAttr() { return new aclopAttr; }

void aclopDestroyAttr(const aclopAttr* attributes) { delete attributes; }

aclError aclopSetAttrBool(aclopAttr* attributes, const char* name, uint8_t value) {
  return aclopSetAttrInt(attributes, name, value);
}

aclError aclopSetAttrInt(aclopAttr* attributes, const char* name, int64_t value) {
  attributes->values[name] = value;
  return ACL_SUCCESS;
}

aclError aclopSetAttrFloat(aclopAttr* attributes, const char* name, float value) {
  attributes->values[name] = value;
  return ACL_SUCCESS;
}

aclError aclopSetAttrListInt(aclopAttr* attributes, const char* name, int count, const int64_t* values) {
  attributes->values[name] = Ints(values, values + count);
  return ACL_SUCCESS;
}

aclError aclopSetAttrString(aclopAttr* attributes, const char* name, const char* value) {
  attributes->values[name] = std::string(value);
  return ACL_SUCCESS;
}

STAND_IN_FUNCTION(aclopCompileAndExecute)
aclError aclopCompileAndExecute(const char* op, int input_count, const aclTensorDesc* const input_descs[],
                                const aclDataBuffer* const inputs[], int output_count,
                                const aclTensorDesc* const output_descs[], aclDataBuffer* const outputs[],
                                const aclopAttr* attributes, int /*engine*/, int /*compile*/, const char* /*path*/,
                                aclrtStream stream) {
  return Call(__func__, stream, [&] {
    Execute(op, Operands(input_count, input_descs, inputs), Operands(output_count, output_descs, outputs), *attributes,
            stream);
  });
}
