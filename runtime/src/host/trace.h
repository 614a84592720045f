// SPDX-License-Identifier: Apache-2.0

// The trace of calls for tests, one JSON object per line: recorded in memory on request, or appended to a file.
#ifndef POOLGRAD_HOST_TRACE_H_
#define POOLGRAD_HOST_TRACE_H_

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>

#include "host/status.h"

namespace poolgrad::host {

// An argument of a call. `read` returns the JSON text of a result or list at `memory`, which may be null. It is null
// for a number, and called only if the call succeeded: until then a result is not written, and a list not checked.
struct Argument {
  const char* name;
  int64_t value;  // of a list: the number of its values
  const void* memory;
  std::string (*read)(const Argument& argument);
};

using Arguments = std::initializer_list<Argument>;

template <typename T>
int64_t AsNumber(T value) {
  if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<intptr_t>(value);
  } else {
    return static_cast<int64_t>(value);
  }
}

template <typename T>
Argument In(const char* name, T value) {
  return {name, AsNumber(value), nullptr, nullptr};
}

template <typename T>
Argument Out(const char* name, const T* result) {
  return {name, 0, result,
          [](const Argument& written) { return std::to_string(AsNumber(*static_cast<const T*>(written.memory))); }};
}

// "[2, 3]", for an argument that points to `count` int64_t.
std::string ReadList(const Argument& list);

inline Argument List(const char* name, const int64_t* values, uint64_t count) {
  return {name, static_cast<int64_t>(count), values, ReadList};
}

inline std::atomic<bool> tracing = false;
inline bool Tracing() { return tracing.load(std::memory_order_relaxed); }

// Each does nothing if the trace is off, and drops the line if there is no memory for it.
void TraceCall(const char* function, Arguments arguments, int code) noexcept;
void TraceRun(const char* function, uint64_t stream, int code) noexcept;  // queued work ran
void TraceNote(const char* note) noexcept;  // a difference between CANN's code and its documents
void TraceLine(const std::string& line) noexcept;

// The text as a JSON string, with quotes and escapes.
std::string Quoted(const std::string& text);

void StartTrace();
void StopTrace();
std::string TakeTrace();  // the lines since the start or the last call

// From now on appends every line to the file too. ACL_ERROR_INVALID_PARAM if it cannot be opened.
Status TraceToFile(const char* path);

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_TRACE_H_
