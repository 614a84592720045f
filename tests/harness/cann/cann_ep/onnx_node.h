// SPDX-License-Identifier: Apache-2.0

// Models of one node, as bytes of ONNX's protocol buffers.
#ifndef TESTS_CANN_EP_ONNX_NODE_H_
#define TESTS_CANN_EP_ONNX_NODE_H_

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace stand_in {

using OnnxAttribute = std::variant<int64_t, float, std::vector<int64_t>, std::string>;

struct OnnxNode {
  std::string op;
  std::map<std::string, OnnxAttribute> attributes;
  std::vector<std::vector<int64_t>> constants = {};  // further inputs, after those of the operator
};

// Inputs and outputs have these element types and any shapes. An input without a type is left out.
std::string OneNodeModel(const OnnxNode& node, const std::vector<int>& input_types,
                         const std::vector<int>& output_types);

}  // namespace stand_in

#endif  // TESTS_CANN_EP_ONNX_NODE_H_
