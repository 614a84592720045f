// SPDX-License-Identifier: Apache-2.0

// Runs the stand-in's functions as functions of the host library, and their work on its streams.
#ifndef TESTS_CANN_EP_CALLS_H_
#define TESTS_CANN_EP_CALLS_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cpu_model.h"
#include "host/extension.h"

namespace stand_in {

// Declares a function to the host library, which then makes it fail by request.
struct Declared {
  explicit Declared(const char* function) { aclnnHostDeclare(function); }
};

// The message of the exception that is being handled.
std::string MessageOfException();

// Runs `body` as the function of this name. An exception becomes ACL_ERROR_INTERNAL_ERROR and the thread's message.
template <typename Body>
int Call(const char* function, aclrtStream stream, Body&& body) {
  struct Context {
    Body& body;
    std::string message;
  } context{body, ""};
  const auto run = [](void* data, const char** message) -> int32_t {
    auto& called = *static_cast<Context*>(data);
    try {
      called.body();
      return ACL_SUCCESS;
    } catch (...) {
      called.message = MessageOfException();
      *message = called.message.c_str();
      return ACL_ERROR_INTERNAL_ERROR;
    }
  };
  return aclnnHostCall(function, stream, run, &context);
}

struct Operand {
  void* address;
  TensorType type;
};

// Queues a run of the model on the stream, which reads the inputs and writes the outputs. Throws std::runtime_error if
// it cannot be queued.
void Launch(aclrtStream stream, std::shared_ptr<const CpuModel> model, std::vector<Operand> inputs,
            std::vector<Operand> outputs);

}  // namespace stand_in

// Declares an exported function that runs in Call. It stands before the function's definition.
#define STAND_IN_FUNCTION(name) static const stand_in::Declared name##_declared(#name);

#endif  // TESTS_CANN_EP_CALLS_H_
