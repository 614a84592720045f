// SPDX-License-Identifier: Apache-2.0

// The parts of the plugin for ATC that do not need GE, for `plugin_parts.py`. Writes what they return as literals of
// Python:
//
//     parts table               the operators
//     parts json                for each text of the standard input, what ReadJson returns
//     parts attributes OPERATOR the same for ReadAttributes
//
// A text is preceded by its length and a newline. An exception becomes a literal too: ("error", message).

#include <exception>
#include <functional>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "attributes.h"
#include "json.h"
#include "operators.h"

namespace {

using poolgrad::atc::Attribute;
using poolgrad::atc::Json;
using poolgrad::atc::Operator;
using poolgrad::atc::Type;
using poolgrad::atc::Value;

std::string Bytes(const std::string& text) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string literal = "b'";
  for (const unsigned char letter : text) literal += {'\\', 'x', kDigits[letter / 16], kDigits[letter % 16]};
  return literal + "'";
}

template <class Items, class Write>
std::string List(const Items& items, const Write& write) {
  std::string literal = "[";
  for (const auto& item : items) literal += write(item) + ",";
  return literal + "]";
}

std::string Integers(const std::vector<std::int64_t>& integers) {
  return List(integers, [](std::int64_t integer) { return std::to_string(integer); });
}

std::string Literal(const Json& value) {
  switch (value.kind) {
    case Json::Kind::kNull:
      return "None";
    case Json::Kind::kBoolean:
      return value.integer != 0 ? "True" : "False";
    case Json::Kind::kInteger:
      return std::to_string(value.integer);
    case Json::Kind::kReal:
      return "('real'," + Bytes(value.text) + ")";
    case Json::Kind::kString:
      return Bytes(value.text);
    case Json::Kind::kList:
      return List(value.items, Literal);
    default: {
      std::string literal = "{";
      for (std::size_t item = 0; item < value.items.size(); ++item) {
        literal += Bytes(value.keys[item]) + ":" + Literal(value.items[item]) + ",";
      }
      return literal + "}";
    }
  }
}

std::string Name(Type type) {
  static const char* const kNames[] = {"'int'", "'bool'", "'ints'", "'string'", "'float'"};
  return kNames[static_cast<int>(type)];
}

std::string Literal(const Value& value) {
  const std::string content = value.type == Type::kString ? Bytes(value.text) : Integers(value.numbers);
  return "(" + Bytes(value.name) + "," + Name(value.type) + "," + content + ")";
}

std::string Literal(const Attribute& attribute) {
  return "(" + Bytes(attribute.name) + "," + Name(attribute.type) + "," + std::to_string(attribute.length) + "," +
         std::to_string(attribute.minimum) + "," + Integers(attribute.allowed) + "," + Integers(attribute.fallback) +
         "," + Bytes(attribute.text) + ")";
}

std::string Literal(const Operator& op) {
  const auto literal = [](const Attribute& attribute) { return Literal(attribute); };
  return "(" + Bytes(op.key) + "," + Bytes(op.prototype) + "," + (op.refused ? "True" : "False") + "," +
         List(op.inputs, Bytes) + "," + List(op.outputs, Bytes) + "," + List(op.attributes, literal) + "," +
         List(op.body, literal) + ")";
}

void AnswerTexts(const std::function<std::string(const std::string&)>& answer) {
  std::string length;
  while (std::getline(std::cin, length)) {
    std::string text(std::stoul(length), '\0');
    std::cin.read(&text[0], static_cast<std::streamsize>(text.size()));
    try {
      std::cout << answer(text) << "\n";
    } catch (const std::runtime_error& error) {
      std::cout << "('error'," << Bytes(error.what()) << ")\n";
    }
  }
}

const Operator& Find(const std::string& name) {
  for (const Operator& op : poolgrad::atc::Operators()) {
    if (op.prototype == name && !op.refused) return op;
  }
  throw std::logic_error("no operator " + name);
}

}  // namespace

int main(int count, char** arguments) {
  const std::string mode = count > 1 ? arguments[1] : "";
  if (mode == "table") {
    for (const Operator& op : poolgrad::atc::Operators()) std::cout << Literal(op) << "\n";
  } else if (mode == "json") {
    AnswerTexts([](const std::string& text) { return Literal(poolgrad::atc::ReadJson(text)); });
  } else if (mode == "attributes" && count == 3) {
    const Operator& op = Find(arguments[2]);
    AnswerTexts([&op](const std::string& text) {
      return List(poolgrad::atc::ReadAttributes(op, text), [](const Value& value) { return Literal(value); });
    });
  } else {
    return 2;
  }
}
