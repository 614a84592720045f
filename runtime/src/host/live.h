// SPDX-License-Identifier: Apache-2.0

// The number of objects of each kind that are not destroyed yet.
#ifndef POOLGRAD_HOST_LIVE_H_
#define POOLGRAD_HOST_LIVE_H_

#include <array>
#include <atomic>
#include <cstdint>

namespace poolgrad::host {

enum class Kind { kTensor, kIntArray, kExecutor, kStream, kEvent, kDeviceMemory, kPinnedMemory };

constexpr std::array<Kind, 7> kKinds = {Kind::kTensor, Kind::kIntArray,     Kind::kExecutor,    Kind::kStream,
                                        Kind::kEvent,  Kind::kDeviceMemory, Kind::kPinnedMemory};
constexpr std::array<const char*, kKinds.size()> kKindNames = {"tensor", "int_array",     "executor",     "stream",
                                                               "event",  "device_memory", "pinned_memory"};

inline const char* KindName(Kind kind) { return kKindNames[static_cast<size_t>(kind)]; }

inline std::array<std::atomic<int64_t>, kKinds.size()> live_counts = {};
inline std::atomic<int64_t>& LiveCount(Kind kind) { return live_counts[static_cast<size_t>(kind)]; }

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_LIVE_H_
