// SPDX-License-Identifier: Apache-2.0

#include "ep/node.h"

#include <algorithm>

namespace poolgrad::ep {
namespace {

Argument ArgumentOf(const OrtContext& ort, const ort::OrtTypeInfo* type) {
  if (type == nullptr) throw InvalidArgument("the type of an input or output is not known");
  const ort::OrtTensorTypeAndShapeInfo* tensor = nullptr;
  Check(ort.api, ort.api.CastTypeInfoToTensorInfo(type, &tensor));
  if (tensor == nullptr) throw InvalidArgument("an input or output is not a tensor");
  return ReadArgument(ort, tensor);
}

Argument ArgumentOf(const OrtContext& ort, const ort::OrtValueInfo* value) {
  if (value == nullptr) throw InvalidArgument("an input or output is missing");
  const ort::OrtTypeInfo* type = nullptr;
  Check(ort.api, ort.api.GetValueInfoTypeInfo(value, &type));
  return ArgumentOf(ort, type);
}

std::vector<Argument> ArgumentsOf(const OrtContext& ort, const std::vector<const ort::OrtValueInfo*>& values) {
  std::vector<Argument> arguments;
  for (const ort::OrtValueInfo* value : values) arguments.push_back(ArgumentOf(ort, value));
  return arguments;
}

using TypeOfKernel = ort::OrtStatus* (*)(const ort::OrtKernelInfo* info, std::size_t index, ort::OrtTypeInfo** out);

std::vector<Argument> KernelArguments(const OrtContext& ort, const ort::OrtKernelInfo* info, std::size_t count,
                                      TypeOfKernel type_of) {
  std::vector<Argument> arguments;
  for (std::size_t i = 0; i < count; ++i) {
    ort::OrtTypeInfo* type = nullptr;
    Check(ort.api, type_of(info, i, &type));
    const OrtHandle<ort::OrtTypeInfo> owner(type, ort.api.ReleaseTypeInfo);
    arguments.push_back(ArgumentOf(ort, type));
  }
  return arguments;
}

OrtHandle<ort::OrtTensorTypeAndShapeInfo> InfoOf(const OrtContext& ort, const ort::OrtValue* tensor) {
  ort::OrtTensorTypeAndShapeInfo* info = nullptr;
  Check(ort.api, ort.api.GetTensorTypeAndShape(tensor, &info));
  return {info, ort.api.ReleaseTensorTypeAndShapeInfo};
}

void RequireRank(std::size_t rank) {
  Require(rank <= Shape::kMaxRank, [&] {
    return "an argument has rank " + std::to_string(rank) + ", above " + std::to_string(Shape::kMaxRank);
  });
}

void RequireCount(const char* what, std::size_t actual, std::size_t expected) {
  Require(actual == expected,
          std::string("the node has ") + std::to_string(actual) + " " + what + ", not " + std::to_string(expected));
}

}  // namespace

std::vector<const ort::OrtNode*> NodesOf(const OrtContext& ort, const ort::OrtGraph* graph) {
  std::size_t count = 0;
  Check(ort.api, ort.api.Graph_GetNumNodes(graph, &count));
  std::vector<const ort::OrtNode*> nodes(count);
  Check(ort.api, ort.api.Graph_GetNodes(graph, nodes.data(), count));
  return nodes;
}

std::string Label(const std::string& op_type, const std::string& name) {
  return op_type + (name.empty() ? " node without a name" : " node '" + name + "'");
}

std::string Label(const OrtContext& ort, const ort::OrtNode* node) {
  return Label(OperatorType(ort, node), NameOf(ort, node));
}

std::string NameOf(const OrtContext& ort, const ort::OrtNode* node) {
  const char* name = nullptr;
  Check(ort.api, ort.api.Node_GetName(node, &name));
  return name;
}

std::string OperatorType(const OrtContext& ort, const ort::OrtNode* node) {
  const char* op_type = nullptr;
  Check(ort.api, ort.api.Node_GetOperatorType(node, &op_type));
  return op_type;
}

std::vector<const ort::OrtValueInfo*> InputValuesOf(const OrtContext& ort, const ort::OrtNode* node,
                                                    std::size_t count) {
  std::size_t actual = 0;
  Check(ort.api, ort.api.Node_GetNumInputs(node, &actual));
  RequireCount("inputs", actual, count);
  std::vector<const ort::OrtValueInfo*> inputs(count);
  Check(ort.api, ort.api.Node_GetInputs(node, inputs.data(), count));
  return inputs;
}

std::vector<const ort::OrtValueInfo*> OutputValuesOf(const OrtContext& ort, const ort::OrtNode* node,
                                                     std::size_t count) {
  std::size_t actual = 0;
  Check(ort.api, ort.api.Node_GetNumOutputs(node, &actual));
  RequireCount("outputs", actual, count);
  std::vector<const ort::OrtValueInfo*> outputs(count);
  Check(ort.api, ort.api.Node_GetOutputs(node, outputs.data(), count));
  return outputs;
}

std::vector<Argument> InputsOf(const OrtContext& ort, const ort::OrtNode* node, std::size_t count) {
  return ArgumentsOf(ort, InputValuesOf(ort, node, count));
}

std::vector<Argument> OutputsOf(const OrtContext& ort, const ort::OrtNode* node, std::size_t count) {
  return ArgumentsOf(ort, OutputValuesOf(ort, node, count));
}

std::vector<Argument> InputsOf(const OrtContext& ort, const ort::OrtKernelInfo* info, std::size_t count) {
  std::size_t actual = 0;
  Check(ort.api, ort.api.KernelInfo_GetInputCount(info, &actual));
  RequireCount("inputs", actual, count);
  return KernelArguments(ort, info, count, ort.api.KernelInfo_GetInputTypeInfo);
}

std::vector<Argument> OutputsOf(const OrtContext& ort, const ort::OrtKernelInfo* info, std::size_t count) {
  std::size_t actual = 0;
  Check(ort.api, ort.api.KernelInfo_GetOutputCount(info, &actual));
  RequireCount("outputs", actual, count);
  return KernelArguments(ort, info, count, ort.api.KernelInfo_GetOutputTypeInfo);
}

Argument ReadArgument(const OrtContext& ort, const ort::OrtTensorTypeAndShapeInfo* info) {
  Argument argument;
  Check(ort.api, ort.api.GetTensorElementType(info, &argument.type));
  Shape& shape = argument.shape;
  Check(ort.api, ort.api.GetDimensionsCount(info, &shape.rank));
  RequireRank(shape.rank);
  Check(ort.api, ort.api.GetDimensions(info, shape.dims.data(), shape.rank));
  return argument;
}

Argument ReadArgument(const OrtContext& ort, const ort::OrtValue* tensor) {
  if (ort.version < ort::kShapeReferenceApiVersion) return ReadArgument(ort, InfoOf(ort, tensor).get());
  Argument argument;  // the dims are read in place, so that a Run allocates nothing
  Shape& shape = argument.shape;
  const std::int64_t* dims = nullptr;
  Check(ort.api, ort.api.GetTensorElementTypeAndShapeDataReference(tensor, &argument.type, &dims, &shape.rank));
  RequireRank(shape.rank);
  std::copy_n(dims, shape.rank, shape.dims.begin());
  return argument;
}

}  // namespace poolgrad::ep
