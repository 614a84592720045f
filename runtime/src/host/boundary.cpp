// SPDX-License-Identifier: Apache-2.0

#include "host/boundary.h"

#include <exception>
#include <new>
#include <utility>

namespace poolgrad::host {
namespace {

struct RecentMessage {
  std::string pending;  // message of the last failure, not read yet
  std::string read;     // owns the text that the last aclGetRecentErrMsg returned
};

RecentMessage& Recent() {
  thread_local RecentMessage recent;
  return recent;
}

}  // namespace

void SetRecentMessage(const char* function, int code, const char* message) noexcept {
  try {
    Recent().pending = Text(function, ": ", message, " (", code, ' ', AclErrorNameOf(code), ')');
  } catch (...) {
    // No memory for the text: the caller gets the code only.
  }
}

int CodeOfException(const char* function, int out_of_memory) noexcept {
  const auto keep = [function](int code, const char* message) {
    SetRecentMessage(function, code, message);
    return code;
  };
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return keep(out_of_memory, "out of host memory");
  } catch (const std::exception& error) {
    return keep(ACL_ERROR_INTERNAL_ERROR, error.what());
  } catch (...) {
    return keep(ACL_ERROR_INTERNAL_ERROR, "an exception of unknown type");
  }
}

}  // namespace poolgrad::host

using namespace poolgrad::host;

// Reading clears the message. The pointer is valid until the thread's next call of this function.
const char* aclGetRecentErrMsg() {
  const char* message = nullptr;
  Boundary(__func__, {}, [&] {
    RecentMessage& recent = Recent();
    recent.read = std::exchange(recent.pending, {});
    if (!recent.read.empty()) message = recent.read.c_str();
  });
  return message;
}
