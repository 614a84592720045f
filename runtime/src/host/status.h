// How functions of this library report failure: inside it a Status is returned, and boundary.h makes codes of it.
#ifndef POOLGRAD_HOST_STATUS_H_
#define POOLGRAD_HOST_STATUS_H_

#include <sstream>
#include <string>

#include "abi/acl.h"

namespace poolgrad::host {

// A return code of acl or aclnn, and what a user should read about it.
struct Status {
  int code = ACL_SUCCESS;
  std::string message;

  bool ok() const { return code == ACL_SUCCESS; }
};

// The parts one after another.
template <typename... Parts>
std::string Text(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  return text.str();
}

// Status{code, message}, the message being the parts one after another.
template <typename... Parts>
Status Fail(int code, const Parts&... parts) {
  return {code, Text(parts...)};
}

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_STATUS_H_
