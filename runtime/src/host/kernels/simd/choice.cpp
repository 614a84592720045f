// SPDX-License-Identifier: Apache-2.0

#include <atomic>
#include <string_view>

#include "host/kernels/simd/operations.h"
#include "host/kernels/simd/tables.h"

namespace poolgrad::host::simd {
namespace {

bool Always() { return true; }

#ifdef POOLGRAD_X86_VECTORS
bool HasAvx2() { return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("f16c") != 0; }

bool HasAvx512() {
  return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
}
#endif

struct Row {
  std::string_view name;
  const Operations* operations;
  bool (*is_supported)();
};

// The fastest first.
constexpr Row kRows[] = {
#ifdef POOLGRAD_X86_VECTORS
    {"avx512", &kAvx512, HasAvx512},
    {"avx2", &kAvx2, HasAvx2},
#endif
    {"portable", &kPortable, Always},
    {"scalar", &kScalar, Always},
};

const Operations* Find(std::string_view name) {
  for (const Row& row : kRows) {
    if ((name.empty() || name == row.name) && row.is_supported()) return row.operations;
  }
  return nullptr;
}

std::atomic<const Operations*> chosen = nullptr;

}  // namespace

const Operations& Vectors() {
  const Operations* operations = chosen.load(std::memory_order_relaxed);
  if (operations == nullptr) chosen = operations = Find("");
  return *operations;
}

bool ChooseVectors(std::string_view name) {
  const Operations* const operations = Find(name);
  if (operations != nullptr) chosen = operations;
  return operations != nullptr;
}

}  // namespace poolgrad::host::simd
