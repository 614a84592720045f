// SPDX-License-Identifier: Apache-2.0

#include "calls.h"

#include <utility>

namespace stand_in {
namespace {

struct Task {
  std::function<void(void* memory)> run;
  std::string message = {};
};

}  // namespace

std::string MessageOfException() {
  try {
    throw;
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

void Submit(aclrtStream stream, const char* name, void* address, size_t size, bool written,
            std::function<void(void* memory)> run) {
  const auto call = [](void* context, void* memory, const char** message) -> int32_t {
    auto& task = *static_cast<Task*>(context);
    try {
      task.run(memory);
      return ACL_SUCCESS;
    } catch (...) {
      task.message = MessageOfException();
      *message = task.message.c_str();
      return ACL_ERROR_RT_AICORE_EXCEPTION;
    }
  };
  const auto release = [](void* context) { delete static_cast<Task*>(context); };
  const int code = aclnnHostLaunch(stream, name, address, size, written, call, release, new Task{std::move(run)});
  if (code != ACL_SUCCESS) throw std::runtime_error("the stream does not take work: " + std::to_string(code));
}

}  // namespace stand_in
