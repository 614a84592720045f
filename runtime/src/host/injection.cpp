// SPDX-License-Identifier: Apache-2.0

#include "host/injection.h"

#include <dlfcn.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "host/read_number.h"

namespace poolgrad::host {
namespace {

struct Injection {
  std::string function;
  uint64_t remaining;  // calls until the one that fails, which is counted; 0: all fail
  int code;
};

struct Injections {
  std::mutex mutex;
  std::vector<Injection> pending;
  std::set<std::string> declared;  // functions of other libraries
};

Injections& All() {
  static auto* const injections = new Injections;  // never destroyed: calls may come at exit
  return *injections;
}

// Whether this library exports the function.
bool IsExported(const std::string& function) {
  Dl_info self;
  if (dladdr(reinterpret_cast<void*>(&aclInit), &self) == 0) return false;
  const std::unique_ptr<void, int (*)(void*)> library(dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD), dlclose);
  return library && function.rfind("acl", 0) == 0 && dlsym(library.get(), function.c_str()) != nullptr;
}

// Returns the text before the separator. Removes it and the separator from `text`.
std::string_view TakeUntil(char separator, std::string_view& text) {
  const size_t length = std::min(text.find(separator), text.size());
  const std::string_view taken = text.substr(0, length);
  text.remove_prefix(std::min(length + 1, text.size()));
  return taken;
}

}  // namespace

void DeclareFunction(const char* function) {
  Injections& injections = All();
  const std::lock_guard lock(injections.mutex);
  injections.declared.insert(function);
}

Status InjectFailure(const std::string& function, uint64_t nth, int code) {
  if (code == ACL_SUCCESS) return Fail(ACL_ERROR_INVALID_PARAM, "code is 0; a failure needs another");
  const bool exported = IsExported(function);
  Injections& injections = All();
  const std::lock_guard lock(injections.mutex);
  if (!exported && injections.declared.count(function) == 0) {
    return Fail(ACL_ERROR_INVALID_PARAM, "there is no function \"", function, "\" to fail");
  }
  injections.pending.push_back({function, nth, code});
  any_injected = true;
  return {};
}

Status InjectFailures(std::string_view list) {
  while (!list.empty()) {
    const std::string_view entry = TakeUntil(',', list);
    std::string_view rest = entry;
    const std::string function(TakeUntil(':', rest));
    uint64_t nth = 0;
    int code = 0;
    if (!ReadNumber(TakeUntil(':', rest), nth) || !ReadNumber(rest, code)) {
      return Fail(ACL_ERROR_INVALID_PARAM, '"', entry, "\" is no function:nth:code, such as aclrtMalloc:2:207001");
    }
    if (Status status = InjectFailure(function, nth, code); !status.ok()) return status;
  }
  return {};
}

void ForgetFailures() {
  Injections& injections = All();
  const std::lock_guard lock(injections.mutex);
  injections.pending.clear();
  any_injected = false;
}

int InjectedFailure(const char* function) noexcept {
  Injections& injections = All();
  const std::lock_guard lock(injections.mutex);
  int code = ACL_SUCCESS;
  for (auto injection = injections.pending.begin(); injection != injections.pending.end();) {
    const bool due = injection->function == function && injection->remaining <= 1;
    if (injection->function == function && !due) --injection->remaining;
    if (due && code == ACL_SUCCESS) code = injection->code;
    const bool spent = due && injection->remaining == 1;
    injection = spent ? injections.pending.erase(injection) : injection + 1;
  }
  any_injected = !injections.pending.empty();
  return code;
}

}  // namespace poolgrad::host
