#include "host/status.h"

#include <utility>

namespace poolgrad::host {
namespace {

struct RecentMessage {
  std::string pending;  // of the last failure, not read yet
  std::string read;     // owns what the last aclGetRecentErrMsg returned
};

RecentMessage& Recent() {
  thread_local RecentMessage recent;
  return recent;
}

}  // namespace

void SetRecentMessage(const char* function, int code, const char* message) noexcept {
  try {
    std::ostringstream text;
    text << function << ": " << message << " (" << code << ' ' << AclErrorNameOf(code) << ')';
    Recent().pending = text.str();
  } catch (const std::exception&) {
    // No memory for the text: the code, which the caller gets, has to do.
  }
}

}  // namespace poolgrad::host

// Reading clears the message; the pointer is good until the thread's next call of this function.
const char* aclGetRecentErrMsg() {
  poolgrad::host::RecentMessage& recent = poolgrad::host::Recent();
  recent.read = std::exchange(recent.pending, {});
  return recent.read.empty() ? nullptr : recent.read.c_str();
}
