#include "ep/node.h"

namespace poolgrad::ep {
namespace {

constexpr std::size_t kInputs = 3;

Argument ArgumentOf(const OrtContext& ort, const ort::OrtValueInfo* input) {
  if (input == nullptr) throw InvalidArgument("an input is missing");
  const ort::OrtTypeInfo* type = nullptr;
  Check(ort.api, ort.api.GetValueInfoTypeInfo(input, &type));
  if (type == nullptr) throw InvalidArgument("the type of an input is not known");
  const ort::OrtTensorTypeAndShapeInfo* tensor = nullptr;
  Check(ort.api, ort.api.CastTypeInfoToTensorInfo(type, &tensor));
  if (tensor == nullptr) throw InvalidArgument("an input is not a tensor");
  return ReadArgument(ort, tensor);
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
  const char* name = nullptr;
  Check(ort.api, ort.api.Node_GetName(node, &name));
  return Label(OperatorType(ort, node), name);
}

std::string OperatorType(const OrtContext& ort, const ort::OrtNode* node) {
  const char* op_type = nullptr;
  Check(ort.api, ort.api.Node_GetOperatorType(node, &op_type));
  return op_type;
}

Arguments ArgumentsOf(const OrtContext& ort, const ort::OrtNode* node) {
  std::size_t count = 0;
  Check(ort.api, ort.api.Node_GetNumInputs(node, &count));
  if (count != kInputs) throw InvalidArgument("the node has " + std::to_string(count) + " inputs, not 3");
  const ort::OrtValueInfo* inputs[kInputs] = {};
  Check(ort.api, ort.api.Node_GetInputs(node, inputs, kInputs));
  return {ArgumentOf(ort, inputs[0]), ArgumentOf(ort, inputs[1]), ArgumentOf(ort, inputs[2])};
}

Argument ReadArgument(const OrtContext& ort, const ort::OrtTensorTypeAndShapeInfo* info) {
  Argument argument;
  Check(ort.api, ort.api.GetTensorElementType(info, &argument.type));
  Shape& shape = argument.shape;
  Check(ort.api, ort.api.GetDimensionsCount(info, &shape.rank));
  if (shape.rank > Shape::kMaxRank) {
    throw InvalidArgument("an argument has rank " + std::to_string(shape.rank) + ", above " +
                          std::to_string(Shape::kMaxRank));
  }
  Check(ort.api, ort.api.GetDimensions(info, shape.dims.data(), shape.rank));
  return argument;
}

}  // namespace poolgrad::ep
