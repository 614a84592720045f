// SPDX-License-Identifier: Apache-2.0

// Numbers in the texts of environment variables.
#ifndef POOLGRAD_HOST_READ_NUMBER_H_
#define POOLGRAD_HOST_READ_NUMBER_H_

#include <charconv>
#include <string_view>

namespace poolgrad::host {

// Reads a decimal number. False if the text holds anything else, or a number that does not fit the type.
template <typename Number>
bool ReadNumber(std::string_view text, Number& number) {
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stopped == end;
}

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_READ_NUMBER_H_
