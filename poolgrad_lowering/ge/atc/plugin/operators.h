// SPDX-License-Identifier: Apache-2.0

// The operators of the dialect as GE has them, with the attributes that their nodes may have in a model.
#ifndef POOLGRAD_ATC_PLUGIN_OPERATORS_H_
#define POOLGRAD_ATC_PLUGIN_OPERATORS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace poolgrad {
namespace atc {

// What an attribute is in GE. In a model, kBool is an INT too. Only function bodies have a kFloat.
enum class Type { kInt, kBool, kInts, kString, kFloat };

struct Attribute {
  std::string name;
  Type type;
  std::size_t length = 0;              // the entries of a kInts
  std::int64_t minimum = 0;            // of every entry of a kInts, and of a kInt with no list of values
  std::vector<std::int64_t> allowed;   // the values of a kInt or kBool
  std::vector<std::int64_t> fallback;  // the value where a node has none; if empty, the attribute is required
  std::string text;                    // of a kString: its only value, and the fallback
};

// The format of tensors. kNd stays as GE's parser has it: data_format alone says what the axes are.
enum class Layout { kNchw, kNcdhw, kNd };

struct Operator {
  const char* key;                    // as GE asks for it: <domain>::<version>::<name>; `poolgrad doctor` looks for it
  const char* prototype;              // in GE
  std::vector<std::string> inputs;    // names in GE, by position
  std::vector<std::string> outputs;   // as above
  Layout layout;                      // of all inputs and outputs
  std::vector<Attribute> attributes;  // of the prototype
  std::vector<Attribute> body;        // for the function body, which GE does not have: only their type counts
  bool refused = false;               // GE has no prototype for it; registered with another one
};

const std::vector<Operator>& Operators();

}  // namespace atc
}  // namespace poolgrad

#endif  // POOLGRAD_ATC_PLUGIN_OPERATORS_H_
