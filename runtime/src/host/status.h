// SPDX-License-Identifier: Apache-2.0

// Failures inside this library: functions return a Status, which boundary.h converts to a code.
#ifndef POOLGRAD_HOST_STATUS_H_
#define POOLGRAD_HOST_STATUS_H_

#include <sstream>
#include <string>

#include "abi/acl.h"

namespace poolgrad::host {

// A return code of acl or aclnn, and a message for the user.
struct Status {
  int code = ACL_SUCCESS;
  std::string message;

  bool ok() const { return code == ACL_SUCCESS; }
};

// Concatenates the parts.
template <typename... Parts>
std::string Text(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

// A Status whose message is the concatenated parts.
template <typename... Parts>
Status Fail(int code, const Parts&... parts) {
  return {code, Text(parts...)};
}

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_STATUS_H_
