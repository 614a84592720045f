// SPDX-License-Identifier: Apache-2.0

// The data that onnxruntime has about a node before a Run.
#ifndef POOLGRAD_EP_NODE_H_
#define POOLGRAD_EP_NODE_H_

#include <string>
#include <vector>

#include "ep/legality.h"
#include "ep/ort_context.h"

namespace poolgrad::ep {

std::vector<const ort::OrtNode*> NodesOf(const OrtContext& ort, const ort::OrtGraph* graph);

// The node's operator type and name, for messages: "AdaptiveMaxPool3d node 'pool'".
std::string Label(const std::string& op_type, const std::string& name);
std::string Label(const OrtContext& ort, const ort::OrtNode* node);

std::string NameOf(const OrtContext& ort, const ort::OrtNode* node);
std::string OperatorType(const OrtContext& ort, const ort::OrtNode* node);

// The node's inputs or outputs. One value of a graph is always the same object. Throws InvalidArgument if their number
// is not `count`.
std::vector<const ort::OrtValueInfo*> InputValuesOf(const OrtContext& ort, const ort::OrtNode* node, std::size_t count);
std::vector<const ort::OrtValueInfo*> OutputValuesOf(const OrtContext& ort, const ort::OrtNode* node,
                                                     std::size_t count);

// The types and shapes of the node's inputs or outputs. Throws InvalidArgument if these are not `count` tensors.
std::vector<Argument> InputsOf(const OrtContext& ort, const ort::OrtNode* node, std::size_t count);
std::vector<Argument> OutputsOf(const OrtContext& ort, const ort::OrtNode* node, std::size_t count);

// The same for a node whose kernel is being created.
std::vector<Argument> InputsOf(const OrtContext& ort, const ort::OrtKernelInfo* info, std::size_t count);
std::vector<Argument> OutputsOf(const OrtContext& ort, const ort::OrtKernelInfo* info, std::size_t count);

// The type and shape in `info`, or of a tensor. Throws InvalidArgument if the rank is above Shape::kMaxRank.
Argument ReadArgument(const OrtContext& ort, const ort::OrtTensorTypeAndShapeInfo* info);
Argument ReadArgument(const OrtContext& ort, const ort::OrtValue* tensor);

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_NODE_H_
