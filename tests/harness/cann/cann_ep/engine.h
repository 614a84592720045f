// SPDX-License-Identifier: Apache-2.0

// The engine that decides what GE makes of a model: a function of the process that runs the tests (graph_engine.py).
#ifndef TESTS_CANN_EP_ENGINE_H_
#define TESTS_CANN_EP_ENGINE_H_

#include <cstddef>
#include <cstdint>

// Returns a status of GE for a call of `function`: "parse" a model, `data`; "initialize"; "build" the model of this
// number. Options are texts, each with its 0: a name and a value in turn. The engine answers with standInAnswer: the
// number of the parsed model, the built model, or the message of a failure.
using Engine = uint32_t (*)(const char* function, int64_t number, const char* options, size_t options_size,
                            const char* data, size_t size, void* reply);

#pragma GCC visibility push(default)
extern "C" {

void standInSetEngine(Engine engine);
void standInAnswer(void* reply, const char* data, size_t size);

}  // extern "C"
#pragma GCC visibility pop

#endif  // TESTS_CANN_EP_ENGINE_H_
