// SPDX-License-Identifier: Apache-2.0

#include "ep/json.h"

#include <cstdio>

namespace poolgrad::ep::json {
namespace {

std::string Escape(unsigned char letter) {
  if (letter == '"' || letter == '\\') return std::string("\\") + static_cast<char>(letter);
  if (letter >= 0x20) return std::string(1, static_cast<char>(letter));
  char text[8];
  std::snprintf(text, sizeof text, "\\u%04x", static_cast<unsigned>(letter));
  return text;
}

std::string Join(const std::vector<std::string>& values) {
  std::string text;
  for (const std::string& value : values) text += (text.empty() ? "" : ", ") + value;
  return text;
}

}  // namespace

std::string String(const std::string& text) {
  std::string quoted;
  for (const char letter : text) quoted += Escape(static_cast<unsigned char>(letter));
  return '"' + quoted + '"';
}

std::string StringOrNull(const std::string& text) { return text.empty() ? "null" : String(text); }

std::string Array(const std::vector<std::string>& values) { return '[' + Join(values) + ']'; }

std::string Object(const std::vector<std::pair<std::string, std::string>>& members) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : members) parts.push_back(String(name) + ": " + value);
  return '{' + Join(parts) + '}';
}

}  // namespace poolgrad::ep::json
