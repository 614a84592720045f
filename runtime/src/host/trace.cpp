// SPDX-License-Identifier: Apache-2.0

#include "host/trace.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <mutex>
#include <utility>

#include "host/boundary.h"
#include "host/tensor.h"

namespace poolgrad::host {
namespace {

struct Trace {
  std::mutex mutex;
  bool kept = false;
  std::string lines;
  int file = -1;
};

Trace& TheTrace() {
  static auto* const trace = new Trace;  // never destroyed: calls may come at exit
  return *trace;
}

// The number of the calling thread: threads are numbered by their first call, from 1.
uint64_t ThreadNumber() {
  static std::atomic<uint64_t> last = 0;
  thread_local const uint64_t number = ++last;
  return number;
}

void Append(const std::string& line) {
  Trace& trace = TheTrace();
  const std::lock_guard lock(trace.mutex);
  if (trace.kept) trace.lines += line;
  // One write per line, so that a crash loses none. A failed write cannot be reported.
  if (trace.file >= 0 && write(trace.file, line.data(), line.size()) < 0) return;
}

std::string ValueText(const Argument& argument) {
  if (argument.read == nullptr) return std::to_string(argument.value);
  return argument.memory != nullptr ? argument.read(argument) : "null";
}

template <typename Make>
void AppendMade(Make&& make) noexcept {
  if (!Tracing()) return;
  try {
    Append(make() + "\n");
  } catch (...) {
    // No memory for the line.
  }
}

}  // namespace

void TraceCall(const char* function, Arguments arguments, int code) noexcept {
  AppendMade([&] {
    std::string line = Text("{\"call\": \"", function, "\", \"thread\": ", ThreadNumber());
    for (const Argument& argument : arguments) {
      if (argument.read != nullptr && code != ACL_SUCCESS) continue;
      line += Text(", \"", argument.name, "\": ", ValueText(argument));
    }
    return line + Text(", \"code\": ", code, '}');
  });
}

void TraceRun(const char* function, uint64_t stream, int code) noexcept {
  AppendMade([&] { return Text("{\"run\": \"", function, "\", \"stream\": ", stream, ", \"code\": ", code, '}'); });
}

void TraceNote(const char* note) noexcept {
  AppendMade([&] { return Text("{\"note\": ", Quoted(note), ", \"function\": \"", current_function, "\"}"); });
}

void TraceLine(const std::string& line) noexcept {
  AppendMade([&] { return line; });
}

std::string ReadList(const Argument& list) {
  const auto* const values = static_cast<const int64_t*>(list.memory);
  return DimsText({values, values + list.value});
}

std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char character : text) {
    if (static_cast<unsigned char>(character) < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), "\\u%04x", character);
      quoted += escaped;
      continue;
    }
    if (character == '"' || character == '\\') quoted += '\\';
    quoted += character;
  }
  return quoted + '"';
}

void StartTrace() {
  Trace& trace = TheTrace();
  const std::lock_guard lock(trace.mutex);
  trace.kept = true;
  trace.lines.clear();
  tracing = true;
}

void StopTrace() {
  Trace& trace = TheTrace();
  const std::lock_guard lock(trace.mutex);
  trace.kept = false;
  tracing = trace.file >= 0;
}

std::string TakeTrace() {
  Trace& trace = TheTrace();
  const std::lock_guard lock(trace.mutex);
  return std::exchange(trace.lines, {});
}

Status TraceToFile(const char* path) {
  const int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) return Fail(ACL_ERROR_INVALID_PARAM, "cannot open \"", path, "\" to write the trace to");
  Trace& trace = TheTrace();
  const std::lock_guard lock(trace.mutex);
  trace.file = file;
  tracing = true;
  return {};
}

}  // namespace poolgrad::host
