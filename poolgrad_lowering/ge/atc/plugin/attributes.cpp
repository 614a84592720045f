// SPDX-License-Identifier: Apache-2.0

#include "attributes.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <stdexcept>

#include "json.h"

namespace poolgrad {
namespace atc {
namespace {

constexpr char kExportAgain[] = "; write the model again with 'poolgrad export-atc' of this plugin's version";
constexpr char kOtherGe[] =
    "; this release of CANN describes nodes to plugins in another way than 8.5 to 9.2 do: report it to the authors of "
    "poolgrad-lowering";

using Nodes = std::map<std::string, const Json*>;

// How ONNX writes an attribute: the number of its type, the type's name, and the field of its value.
struct OnnxType {
  std::int64_t number;
  const char* name;
  const char* field;
};

OnnxType InOnnx(Type type) {
  switch (type) {
    case Type::kInts:
      return {7, "INTS", "ints"};
    case Type::kString:
      return {3, "STRING", "s"};
    case Type::kFloat:
      return {1, "FLOAT", "f"};
    default:
      return {2, "INT", "i"};
  }
}

[[noreturn]] void Reject(const std::string& name, const std::string& what) {
  throw std::runtime_error("attribute " + Quoted(name) + " " + what + kExportAgain);
}

[[noreturn]] void RejectText(const std::string& what) {
  throw std::runtime_error("GE's attributes: " + what + kOtherGe);
}

// Returns the field of an object of this kind, or null if the object has no such field.
const Json* FieldOf(const Json& object, const char* key, Json::Kind kind) {
  const Json* field = object.Find(key);
  if (field != nullptr && field->kind != kind) RejectText(std::string("field ") + Quoted(key) + " is of another kind");
  return field;
}

std::string TextOf(const Json& object, const char* key) {
  const Json* field = FieldOf(object, key, Json::Kind::kString);
  return field == nullptr ? "" : field->text;
}

// GE leaves out a number that is 0.
std::int64_t IntegerOf(const Json& object, const char* key) {
  const Json* field = FieldOf(object, key, Json::Kind::kInteger);
  return field == nullptr ? 0 : field->integer;
}

std::vector<std::int64_t> IntegersOf(const Json& object, const char* key) {
  std::vector<std::int64_t> integers;
  const Json* field = FieldOf(object, key, Json::Kind::kList);
  if (field == nullptr) return integers;
  for (const Json& item : field->items) {
    if (item.kind != Json::Kind::kInteger) RejectText(std::string("an entry of ") + Quoted(key) + " is no integer");
    integers.push_back(item.integer);
  }
  return integers;
}

// The entries of the text's list by the attribute's name.
Nodes ByName(const Json& document) {
  Nodes nodes;
  if (document.kind != Json::Kind::kObject) RejectText("the text is no object");
  const Json* list = FieldOf(document, "attribute", Json::Kind::kList);
  if (list == nullptr) RejectText("the text has no list 'attribute'");
  for (const Json& item : list->items) {
    if (item.kind != Json::Kind::kObject) RejectText("an attribute is no object");
    const std::string name = TextOf(item, "name");
    if (!nodes.emplace(name, &item).second) Reject(name, "is given twice");
  }
  return nodes;
}

void CheckType(const Attribute& attribute, const Json& node) {
  const OnnxType expected = InOnnx(attribute.type);
  const std::int64_t number = IntegerOf(node, "type");
  if (number != expected.number) {
    Reject(attribute.name, "has type " + std::to_string(number) + " instead of " + std::to_string(expected.number) +
                               " (" + expected.name + ")");
  }
  if (!TextOf(node, "ref_attr_name").empty()) Reject(attribute.name, "refers to an attribute of a function");
}

void CheckNumbers(const Attribute& attribute, const std::vector<std::int64_t>& numbers) {
  if (attribute.type == Type::kInts && numbers.size() != attribute.length) {
    Reject(attribute.name,
           "has " + std::to_string(numbers.size()) + " entries instead of " + std::to_string(attribute.length));
  }
  for (const std::int64_t number : numbers) {
    const bool legal = attribute.allowed.empty()
                           ? number >= attribute.minimum
                           : std::count(attribute.allowed.begin(), attribute.allowed.end(), number) != 0;
    if (!legal) Reject(attribute.name, "has the value " + std::to_string(number) + ", which is not allowed");
  }
}

Value ReadValue(const Attribute& attribute, const Json& node) {
  CheckType(attribute, node);
  Value value{attribute.name, attribute.type, {}, ""};
  const char* field = InOnnx(attribute.type).field;
  if (attribute.type == Type::kString) {
    // Escaped by GE if it has quotes, backslashes or bytes outside of ASCII, which no allowed text has.
    value.text = TextOf(node, field);
    if (value.text != attribute.text) {
      Reject(attribute.name, "is " + Quoted(value.text) + " instead of " + Quoted(attribute.text));
    }
    return value;
  }
  value.numbers =
      attribute.type == Type::kInts ? IntegersOf(node, field) : std::vector<std::int64_t>{IntegerOf(node, field)};
  CheckNumbers(attribute, value.numbers);
  return value;
}

Value DefaultValue(const Attribute& attribute) {
  if (attribute.fallback.empty() && attribute.text.empty()) Reject(attribute.name, "is missing");
  return {attribute.name, attribute.type, attribute.fallback, attribute.text};
}

// Removes the node of an attribute and returns it, or null.
const Json* Take(Nodes& nodes, const std::string& name) {
  const auto found = nodes.find(name);
  if (found == nodes.end()) return nullptr;
  const Json* node = found->second;
  nodes.erase(found);
  return node;
}

Json ReadDocument(const std::string& json) {
  try {
    return ReadJson(json.empty() ? R"({"attribute":[]})" : json);
  } catch (const std::runtime_error& error) {
    RejectText(error.what());
  }
}

}  // namespace

std::string Quoted(const std::string& text) {
  std::string result = "'";
  for (const char letter : text) {
    if (letter >= ' ' && letter <= '~') {
      result += letter;
    } else {
      char escaped[5];
      std::snprintf(escaped, sizeof(escaped), "\\x%02x", static_cast<unsigned char>(letter));
      result += escaped;
    }
  }
  return result + "'";
}

std::vector<Value> ReadAttributes(const Operator& op, const std::string& json) {
  const Json document = ReadDocument(json);
  Nodes nodes = ByName(document);
  std::vector<Value> values;
  for (const Attribute& attribute : op.attributes) {
    const Json* node = Take(nodes, attribute.name);
    values.push_back(node == nullptr ? DefaultValue(attribute) : ReadValue(attribute, *node));
  }
  for (const Attribute& attribute : op.body) {
    const Json* node = Take(nodes, attribute.name);
    if (node != nullptr) CheckType(attribute, *node);
  }
  if (!nodes.empty()) Reject(nodes.begin()->first, "is unknown");
  return values;
}

}  // namespace atc
}  // namespace poolgrad
