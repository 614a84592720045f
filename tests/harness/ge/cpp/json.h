// SPDX-License-Identifier: Apache-2.0

// As much JSON as the driver's requests and answers have: objects, arrays, strings, integers, booleans.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace json {

struct Value;
using Array = std::vector<Value>;
using Object = std::map<std::string, Value>;

struct Value {
  std::variant<bool, int64_t, std::string, Array, Object> data;

  const std::string& Text() const { return std::get<std::string>(data); }
  const Array& Items() const { return std::get<Array>(data); }
  const Object& Members() const { return std::get<Object>(data); }
};

// Throws std::runtime_error if `text` is not one value.
Value Read(const std::string& text);
std::string Write(const Value& value);

}  // namespace json
