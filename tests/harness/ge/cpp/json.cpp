// SPDX-License-Identifier: Apache-2.0

#include "json.h"

#include <cstdio>
#include <stdexcept>

namespace json {

namespace {

// What comes from Python's json.dumps: ASCII, no white space but blanks after ',' and ':'.
class Reader {
 public:
  explicit Reader(const std::string& text) : text_(text) {}

  Value ReadAll() {
    Value value = ReadValue();
    if (position_ != text_.size()) Fail();
    return value;
  }

 private:
  [[noreturn]] void Fail() const { throw std::runtime_error("no JSON at byte " + std::to_string(position_)); }

  char Next() {
    if (position_ >= text_.size()) Fail();
    return text_[position_++];
  }

  bool Take(const std::string& token) {
    while (position_ < text_.size() && text_[position_] == ' ') ++position_;
    if (text_.compare(position_, token.size(), token) != 0) return false;
    position_ += token.size();
    return true;
  }

  void Expect(const std::string& token) {
    if (!Take(token)) Fail();
  }

  Value ReadValue() {
    if (Take("{")) return {ReadObject()};
    if (Take("[")) return {ReadArray()};
    if (Take("\"")) return {ReadString()};
    if (Take("true")) return {true};
    if (Take("false")) return {false};
    return {ReadInteger()};
  }

  Object ReadObject() {
    Object members;
    if (Take("}")) return members;
    do {
      Expect("\"");
      std::string name = ReadString();
      Expect(":");
      members[name] = ReadValue();
    } while (Take(","));
    Expect("}");
    return members;
  }

  Array ReadArray() {
    Array items;
    if (Take("]")) return items;
    do items.push_back(ReadValue());
    while (Take(","));
    Expect("]");
    return items;
  }

  std::string ReadString() {
    std::string text;
    for (char next = Next(); next != '"'; next = Next()) text += next == '\\' ? ReadEscape() : next;
    return text;
  }

  char ReadEscape() {
    const char kind = Next();
    if (kind == 'n') return '\n';
    if (kind == 't') return '\t';
    if (kind == 'r') return '\r';
    if (kind == 'b') return '\b';
    if (kind == 'f') return '\f';
    if (kind != 'u') return kind;
    // A byte: Python writes the text of a request as Latin-1, one character for each byte.
    const int code = std::stoi(text_.substr(position_, 4), nullptr, 16);
    position_ += 4;
    return static_cast<char>(code);
  }

  int64_t ReadInteger() {
    std::size_t length = 0;
    const int64_t number = std::stoll(text_.substr(position_), &length);
    position_ += length;
    return number;
  }

  const std::string& text_;
  std::size_t position_ = 0;
};

std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char each : text) {
    const auto byte = static_cast<unsigned char>(each);
    char escaped[8];
    std::snprintf(escaped, sizeof escaped, "\\u%04x", byte);
    if (byte < 0x20 || byte > 0x7e || each == '"' || each == '\\') {
      quoted += escaped;
    } else {
      quoted += each;
    }
  }
  return quoted + "\"";
}

struct Writer {
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(const std::string& value) const { return Quoted(value); }

  std::string operator()(const Array& items) const {
    std::string text;
    for (const Value& item : items) text += (text.empty() ? "" : ",") + Write(item);
    return "[" + text + "]";
  }

  std::string operator()(const Object& members) const {
    std::string text;
    for (const auto& [name, value] : members) text += (text.empty() ? "" : ",") + Quoted(name) + ":" + Write(value);
    return "{" + text + "}";
  }
};

}  // namespace

Value Read(const std::string& text) { return Reader(text).ReadAll(); }

std::string Write(const Value& value) { return std::visit(Writer(), value.data); }

}  // namespace json
