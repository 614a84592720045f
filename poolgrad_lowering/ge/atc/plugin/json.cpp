// SPDX-License-Identifier: Apache-2.0

#include "json.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace poolgrad {
namespace atc {
namespace {

void AppendUtf8(std::uint32_t code, std::string& text) {
  const auto continuation = [&](int shift) { text += static_cast<char>(0x80 | ((code >> shift) & 0x3F)); };
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xC0 | (code >> 6));
    continuation(0);
  } else if (code < 0x10000) {
    text += static_cast<char>(0xE0 | (code >> 12));
    continuation(6);
    continuation(0);
  } else {
    text += static_cast<char>(0xF0 | (code >> 18));
    continuation(12);
    continuation(6);
    continuation(0);
  }
}

bool IsDigit(char letter) { return letter >= '0' && letter <= '9'; }

// A recursive-descent parser. A std::string ends in a null character, which no rule accepts, so Peek needs no check.
class Reader {
 public:
  explicit Reader(const std::string& text) : text_(text) {}

  Json ReadWhole() {
    Json value = ReadValue(0);
    SkipSpaces();
    if (position_ != text_.size()) Fail("text after the value");
    return value;
  }

 private:
  [[noreturn]] void Fail(const char* what) const {
    throw std::runtime_error("not JSON: " + std::string(what) + " at byte " + std::to_string(position_));
  }

  char Peek() const { return text_[position_]; }

  bool Take(char letter) {
    if (Peek() != letter) return false;
    ++position_;
    return true;
  }

  void SkipSpaces() {
    while (Peek() == ' ' || Peek() == '\n' || Peek() == '\r' || Peek() == '\t') ++position_;
  }

  Json ReadValue(int depth) {
    if (depth > kGreatestDepth) Fail("too many levels");
    SkipSpaces();
    switch (Peek()) {
      case '{':
        return ReadObject(depth);
      case '[':
        return ReadList(depth);
      case '"':
        return ReadText();
      case 't':
        return ReadWord("true", Json::Kind::kBoolean, 1);
      case 'f':
        return ReadWord("false", Json::Kind::kBoolean, 0);
      case 'n':
        return ReadWord("null", Json::Kind::kNull, 0);
      default:
        return ReadNumber();
    }
  }

  Json ReadObject(int depth) {
    Json object;
    object.kind = Json::Kind::kObject;
    ReadItems('}', [&] {
      SkipSpaces();
      std::string key = ReadString();
      if (object.Find(key.c_str()) != nullptr) Fail("a repeated key");
      SkipSpaces();
      if (!Take(':')) Fail("no ':' after a key");
      object.items.push_back(ReadValue(depth + 1));
      object.keys.push_back(std::move(key));
    });
    return object;
  }

  Json ReadList(int depth) {
    Json list;
    list.kind = Json::Kind::kList;
    ReadItems(']', [&] { list.items.push_back(ReadValue(depth + 1)); });
    return list;
  }

  // Reads what is between the brackets of a list or object, with commas between the items.
  template <class ReadItem>
  void ReadItems(char end, const ReadItem& read_item) {
    ++position_;
    SkipSpaces();
    if (Take(end)) return;
    do {
      read_item();
      SkipSpaces();
    } while (Take(','));
    if (!Take(end)) Fail("no ',' or end after an item");
  }

  Json ReadText() {
    Json value;
    value.kind = Json::Kind::kString;
    value.text = ReadString();
    return value;
  }

  Json ReadWord(const char* word, Json::Kind kind, std::int64_t integer) {
    if (text_.compare(position_, std::strlen(word), word) != 0) Fail("an unknown word");
    position_ += std::strlen(word);
    Json value;
    value.kind = kind;
    value.integer = integer;
    return value;
  }

  std::string ReadString() {
    if (!Take('"')) Fail("no string");
    std::string result;
    while (!Take('"')) {
      if (static_cast<unsigned char>(Peek()) < 0x20) Fail("a control character or the end in a string");
      if (Take('\\')) {
        AppendEscaped(result);
      } else {
        result += text_[position_++];
      }
    }
    return result;
  }

  void AppendEscaped(std::string& result) {
    static constexpr char kLetters[] = "\"\\/bfnrt";
    static constexpr char kMeanings[] = "\"\\/\b\f\n\r\t";
    if (Take('u')) {
      AppendUtf8(ReadCodePoint(), result);
      return;
    }
    const char* found = Peek() == '\0' ? nullptr : std::strchr(kLetters, Peek());
    if (found == nullptr) Fail("an unknown escape");
    result += kMeanings[found - kLetters];
    ++position_;
  }

  // Reads what follows "\u": one unit of UTF-16, or the two of a surrogate pair.
  std::uint32_t ReadCodePoint() {
    const std::uint32_t first = ReadUnit();
    if (first < 0xD800 || first > 0xDFFF) return first;
    if (first > 0xDBFF || !Take('\\') || !Take('u')) Fail("half a surrogate pair");
    const std::uint32_t second = ReadUnit();
    if (second < 0xDC00 || second > 0xDFFF) Fail("half a surrogate pair");
    return 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
  }

  std::uint32_t ReadUnit() {
    static constexpr char kDigits[] = "0123456789abcdef0123456789ABCDEF";
    std::uint32_t unit = 0;
    for (int digit = 0; digit < 4; ++digit) {
      const char* found = Peek() == '\0' ? nullptr : std::strchr(kDigits, Peek());
      if (found == nullptr) Fail("an escape without four hexadecimal digits");
      unit = unit * 16 + static_cast<std::uint32_t>((found - kDigits) % 16);
      ++position_;
    }
    return unit;
  }

  Json ReadNumber() {
    const std::size_t begin = position_;
    Take('-');
    if (!Take('0')) SkipDigits();
    Json value;
    value.kind = Json::Kind::kInteger;
    if (Take('.')) {
      value.kind = Json::Kind::kReal;
      SkipDigits();
    }
    if (Take('e') || Take('E')) {
      value.kind = Json::Kind::kReal;
      if (!Take('+')) Take('-');
      SkipDigits();
    }
    std::string digits = text_.substr(begin, position_ - begin);
    if (value.kind == Json::Kind::kReal) {
      value.text = std::move(digits);
    } else {
      value.integer = ToInteger(digits);
    }
    return value;
  }

  void SkipDigits() {
    if (!IsDigit(Peek())) Fail("no value");
    while (IsDigit(Peek())) ++position_;
  }

  std::int64_t ToInteger(const std::string& digits) const {
    errno = 0;
    const long long value = std::strtoll(digits.c_str(), nullptr, 10);
    if (errno == ERANGE) Fail("an integer of more than 64 bits");
    return value;
  }

  const std::string& text_;
  std::size_t position_ = 0;
};

}  // namespace

const Json* Json::Find(const char* key) const {
  const auto found = std::find(keys.begin(), keys.end(), key);
  return found == keys.end() ? nullptr : &items[static_cast<std::size_t>(found - keys.begin())];
}

Json ReadJson(const std::string& text) { return Reader(text).ReadWhole(); }

}  // namespace atc
}  // namespace poolgrad
