#include "host/boundary.h"

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
    Recent().pending = Text(function, ": ", message, " (", code, ' ', AclErrorNameOf(code), ')');
  } catch (const std::exception&) {
    // No memory for the text: the code, which the caller gets, has to do.
  }
}

}  // namespace poolgrad::host

using namespace poolgrad::host;

// Reading clears the message; the pointer is good until the thread's next call of this function.
const char* aclGetRecentErrMsg() {
  const char* message = nullptr;
  Boundary(__func__, {}, [&]() -> Status {
    RecentMessage& recent = Recent();
    recent.read = std::exchange(recent.pending, {});
    if (!recent.read.empty()) message = recent.read.c_str();
    return {};
  });
  return message;
}
