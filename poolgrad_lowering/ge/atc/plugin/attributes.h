// SPDX-License-Identifier: Apache-2.0

// The attributes of a node, from the JSON in which GE hands them to a plugin.
#ifndef POOLGRAD_ATC_PLUGIN_ATTRIBUTES_H_
#define POOLGRAD_ATC_PLUGIN_ATTRIBUTES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "operators.h"

namespace poolgrad {
namespace atc {

// The value of one attribute for GE: `text` of a kString, else `numbers`, one of a kInt or kBool.
struct Value {
  std::string name;
  Type type;
  std::vector<std::int64_t> numbers;
  std::string text;
};

// Reads `{"attribute":[{"name":…,"type":…,…},…]}`, and returns a value for each attribute of the operator in GE, also
// where the node has none and the operator has a default. `json` is empty for a node without attributes.
//
// Throws std::runtime_error, with a sentence that names the attribute and says what to do, if an attribute is unknown,
// missing, given twice, of another type or length, or has a value that the dialect does not allow.
std::vector<Value> ReadAttributes(const Operator& op, const std::string& json);

// The text in quotes, with all but printable ASCII escaped.
std::string Quoted(const std::string& text);

}  // namespace atc
}  // namespace poolgrad

#endif  // POOLGRAD_ATC_PLUGIN_ATTRIBUTES_H_
