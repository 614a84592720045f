// SPDX-License-Identifier: Apache-2.0

#include "host/extension.h"

#include <memory>

#include "host/boundary.h"
#include "host/device.h"
#include "host/hardware.h"
#include "host/injection.h"

namespace poolgrad::host {
namespace {

Status StatusOf(int32_t code, const char* message) { return {code, message != nullptr ? message : ""}; }

}  // namespace
}  // namespace poolgrad::host

using namespace poolgrad::host;

void aclnnHostDeclare(const char* function) {
  RunGuarded(__func__, [&] { DeclareFunction(function); });
}

int32_t aclnnHostCall(const char* function, aclrtStream stream, int32_t (*body)(void* context, const char** message),
                      void* context) {
  return Boundary(function, {In("stream", stream)}, [&] {
    const char* message = nullptr;
    const int32_t code = body(context, &message);
    return StatusOf(code, message);
  });
}

int32_t aclnnHostLaunch(aclrtStream stream, const char* name, void* address, size_t size, bool written,
                        int32_t (*run)(void* context, void* memory, const char** message),
                        void (*release)(void* context), void* context) {
  const auto launch = [&] {
    const std::shared_ptr<void> owned(context, release);
    if (Status status = RequireCurrentDevice(); !status.ok()) return status;
    Work work;
    if (size > 0) work.uses.push_back({name, address, size, Place::kDevice, written});
    work.run = [run, owned](const Addresses& at) {
      const char* message = nullptr;
      const int32_t code = run(owned.get(), at[0], &message);
      return StatusOf(code, message);
    };
    work.is_kernel = true;
    return TheHardware().Submit(stream, std::move(work));
  };
  return RunGuarded(current_function, launch);
}
