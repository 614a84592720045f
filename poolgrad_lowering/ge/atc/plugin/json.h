// SPDX-License-Identifier: Apache-2.0

// A reader of JSON, for the text in which GE hands a node's attributes to a plugin. Older toolkits have no header of
// a JSON library.
#ifndef POOLGRAD_ATC_PLUGIN_JSON_H_
#define POOLGRAD_ATC_PLUGIN_JSON_H_

#include <cstdint>
#include <string>
#include <vector>

namespace poolgrad {
namespace atc {

// A value of JSON, with what it contains.
struct Json {
  enum class Kind { kNull, kBoolean, kInteger, kReal, kString, kList, kObject };

  Kind kind = Kind::kNull;
  std::int64_t integer = 0;       // the value of a kInteger; 1 for true
  std::string text;               // the characters of a kString (UTF-8), the digits of a kReal
  std::vector<Json> items;        // the elements of a kList, the values of a kObject
  std::vector<std::string> keys;  // the keys of a kObject, one for each of its values

  // Returns the value of a key, or null.
  const Json* Find(const char* key) const;
};

// Levels of lists and objects that may contain each other. GE nests messages 20 levels deep, a list and an object each.
constexpr int kGreatestDepth = 64;

// Reads a text that is one JSON value. Throws std::runtime_error with the position of the first error; integers outside
// of 64 bits, repeated keys and more levels than kGreatestDepth are errors too.
Json ReadJson(const std::string& text);

}  // namespace atc
}  // namespace poolgrad

#endif  // POOLGRAD_ATC_PLUGIN_JSON_H_
