// SPDX-License-Identifier: Apache-2.0

#include "host/control.h"

#include <cstdlib>

#include "host/boundary.h"
#include "host/injection.h"
#include "host/kernels/parallel.h"
#include "host/kernels/simd/operations.h"
#include "host/live.h"
#include "host/read_number.h"
#include "host/settings.h"
#include "host/trace.h"
#include "host/violations.h"

namespace poolgrad::host {
namespace {

Status SetVectors(const char* name) {
  if (simd::ChooseVectors(name)) return {};
  return Fail(ACL_ERROR_INVALID_PARAM, "there are no kernels here for vectors \"", name, '"');
}

Status SetThreads(int64_t count) {
  if (count < 0) return Fail(ACL_ERROR_INVALID_PARAM, "kernels cannot run on ", count, " threads");
  LimitThreads(count);
  return {};
}

Status ReadThreads(std::string_view text) {
  int64_t count = 0;
  if (ReadNumber(text, count)) return SetThreads(count);
  return Fail(ACL_ERROR_INVALID_PARAM, "ACLNN_HOST_THREADS is \"", text, "\", which is no number of threads");
}

// Applies the environment variables when the library is loaded.
Status ReadEnvironment() {
  if (const char* vectors = std::getenv("ACLNN_HOST_VECTORS"); vectors != nullptr) {
    if (Status status = SetVectors(vectors); !status.ok()) return status;
  }
  if (const char* threads = std::getenv("ACLNN_HOST_THREADS"); threads != nullptr && *threads != '\0') {
    if (Status status = ReadThreads(threads); !status.ok()) return status;
  }
  if (const char* path = std::getenv("ACLNN_HOST_TRACE"); path != nullptr && *path != '\0') {
    if (Status status = TraceToFile(path); !status.ok()) return status;
  }
  const char* failures = std::getenv("ACLNN_HOST_FAIL");
  return failures != nullptr ? InjectFailures(failures) : Status{};
}

const Status environment_status = ReadEnvironment();

int64_t LiveObjects() {
  int64_t count = 0;
  for (const Kind kind : kKinds) count += LiveCount(kind);
  return count;
}

// Writes the last line of a trace, about the objects that the process did not destroy.
struct ExitLine {
  ~ExitLine() {
    if (Tracing()) RunGuarded("exit", Write);
  }

  static void Write() {
    std::string counts;
    for (const Kind kind : kKinds) {
      counts += Text(counts.empty() ? "" : ", ", '"', KindName(kind), "\": ", LiveCount(kind).load());
    }
    TraceLine(Text("{\"exit\": {", counts, "}, \"violations\": ", ViolationCount(), '}'));
  }
};

const ExitLine exit_line;

// Stores the text that `make` returns in `kept`, which belongs to the thread. Returns null if `make` throws.
template <typename Make>
const char* Keep(const char* function, std::string& kept, Make&& make) {
  const int code = RunGuarded(function, [&] { kept = make(); });
  return code == ACL_SUCCESS ? kept.c_str() : nullptr;
}

}  // namespace

Status EnvironmentStatus() { return environment_status; }

}  // namespace poolgrad::host

using namespace poolgrad::host;

void aclnnHostTraceStart() { RunGuarded(__func__, StartTrace); }

void aclnnHostTraceStop() { RunGuarded(__func__, StopTrace); }

const char* aclnnHostTraceRead() {
  thread_local std::string kept;
  return Keep(__func__, kept, TakeTrace);
}

int32_t aclnnHostFail(const char* function, uint64_t nth, int32_t code) {
  return RunGuarded(__func__, [&] { return InjectFailure(function != nullptr ? function : "", nth, code); });
}

const char* aclnnHostViolations() {
  thread_local std::string kept;
  return Keep(__func__, kept, ViolationLines);
}

int64_t aclnnHostLiveObjects(const char* kind) {
  if (kind == nullptr) return LiveObjects();
  for (const Kind known : kKinds) {
    if (KindName(known) == std::string_view(kind)) return LiveCount(known);
  }
  return -1;
}

int32_t aclnnHostSetVectors(const char* name) {
  return RunGuarded(__func__, [&] { return SetVectors(name != nullptr ? name : ""); });
}

int32_t aclnnHostSetThreads(int64_t count) {
  return RunGuarded(__func__, [&] { return SetThreads(count); });
}

void aclnnHostSetParallelFor(aclnnHostParallelFor parallel_for, void* context) { ShareRangesBy(parallel_for, context); }

void aclnnHostReset() {
  RunGuarded(__func__, [] {
    ForgetFailures();
    ForgetViolations();
    TakeTrace();
  });
}
