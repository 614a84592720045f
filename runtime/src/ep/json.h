// SPDX-License-Identifier: Apache-2.0

// Functions that compose JSON text from values that are JSON text.
#ifndef POOLGRAD_EP_JSON_H_
#define POOLGRAD_EP_JSON_H_

#include <string>
#include <utility>
#include <vector>

namespace poolgrad::ep::json {

// A string; bytes that are not ASCII stay as they are.
std::string String(const std::string& text);

// A string, or null where the text is empty.
std::string StringOrNull(const std::string& text);

std::string Array(const std::vector<std::string>& values);
std::string Object(const std::vector<std::pair<std::string, std::string>>& members);

}  // namespace poolgrad::ep::json

#endif  // POOLGRAD_EP_JSON_H_
