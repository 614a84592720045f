// SPDX-License-Identifier: Apache-2.0

// Runs a stand-in's functions as functions of the host library, and their work on its streams.
#ifndef TESTS_STAND_IN_CALLS_H_
#define TESTS_STAND_IN_CALLS_H_

#include <functional>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "host/extension.h"

namespace stand_in {

// Declares a function to the host library, which then makes it fail by request.
struct Declared {
  explicit Declared(const char* function) { aclnnHostDeclare(function); }
};

// The message of the exception that is being handled.
std::string MessageOfException();

// Runs `body` as the function of this name, and returns the code that it returns, or success if it returns nothing. An
// exception becomes ACL_ERROR_INTERNAL_ERROR and the thread's message.
template <typename Body>
int Call(const char* function, aclrtStream stream, Body&& body) {
  struct Context {
    Body& body;
    std::string message;
  } context{body, ""};
  const auto run = [](void* data, const char** message) -> int32_t {
    auto& called = *static_cast<Context*>(data);
    try {
      if constexpr (std::is_void_v<decltype(body())>) {
        called.body();
        return ACL_SUCCESS;
      } else {
        return called.body();
      }
    } catch (...) {
      called.message = MessageOfException();
      *message = called.message.c_str();
      return ACL_ERROR_INTERNAL_ERROR;
    }
  };
  return aclnnHostCall(function, stream, run, &context);
}

// Queues work of the function that Call runs. It reads or writes `size` bytes of device memory from `address` on, or no
// memory if size is 0. `run` is called with the address of these bytes in the process; an exception puts the stream in
// error. Throws std::runtime_error if the work cannot be queued.
void Submit(aclrtStream stream, const char* name, void* address, size_t size, bool written,
            std::function<void(void* memory)> run);

}  // namespace stand_in

// Declares an exported function that runs in Call. It stands before the function's definition.
#define STAND_IN_FUNCTION(name) static const stand_in::Declared name##_declared(#name);

#endif  // TESTS_STAND_IN_CALLS_H_
