// SPDX-License-Identifier: Apache-2.0

#include "host/strict/memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "host/live.h"

namespace poolgrad::host {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kFreed = 1024;  // number of freed allocations whose addresses are not reused

Kind KindOf(Place place) { return place == Place::kDevice ? Kind::kDeviceMemory : Kind::kPinnedMemory; }

std::byte* NewBytes(size_t size) {
  void* bytes = std::aligned_alloc(kAlignment, (size + kAlignment - 1) / kAlignment * kAlignment);
  if (bytes == nullptr) throw std::bad_alloc();
  return static_cast<std::byte*>(bytes);
}

std::string RangeText(const Use& use) { return Text(use.size, " bytes at ", use.address); }

}  // namespace

void Memory::FreeBytes::operator()(std::byte* bytes) const { std::free(bytes); }

Status Memory::Allocate(int32_t device, Place place, size_t size, void** address) {
  try {
    Allocation made{device, place, size, Reservation(size), nullptr};
    std::byte* bytes = nullptr;
    if (place == Place::kDevice) {
      made.bytes.reset(NewBytes(size));
      bytes = made.bytes.get();
    } else {
      made.reservation.Open();
      bytes = reinterpret_cast<std::byte*>(made.address());
    }
    std::memset(bytes, kPoison, size);
    *address = reinterpret_cast<void*>(made.address());
    live_.emplace(made.address(), std::move(made));
  } catch (const std::bad_alloc&) {
    return Fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "cannot allocate ", size, " bytes");
  }
  ++LiveCount(KindOf(place));
  return {};
}

Status Memory::Free(Place place, void* address) {
  const auto found = live_.find(reinterpret_cast<uintptr_t>(address));
  if (found != live_.end() && found->second.place == place) {
    Retire(found);
    return {};
  }
  const char* what = WasFreed(address)          ? "was freed before"
                     : found != live_.end()     ? "is memory of the other side"
                     : Find(address) != nullptr ? "lies within an allocation and does not begin it"
                                                : "is no memory of this device";
  return Fail(ACL_ERROR_RT_DRV_INTERNAL_ERROR, address, ' ', what);
}

Status Memory::Reach(const Use& use, std::byte** bytes) const {
  const Allocation* allocation = Find(use.address);
  const bool is_known = allocation != nullptr || WasFreed(use.address);
  if (!is_known && use.place == Place::kHost) {
    *bytes = static_cast<std::byte*>(use.address);
    return {};
  }
  const auto bad = [&](int code, const auto&... parts) {
    return Fail(code, use.name, ", ", RangeText(use), ", ", parts...);
  };
  if (!is_known) return bad(ACL_ERROR_RT_PARAM_INVALID, "is no device memory");
  if (allocation == nullptr) return bad(ACL_ERROR_RT_DRV_INTERNAL_ERROR, "is freed memory");
  if (allocation->place != use.place) {
    return bad(ACL_ERROR_RT_PARAM_INVALID, use.place == Place::kDevice
                                               ? "is pinned memory; it has to be device memory"
                                               : "is device memory; it has to be memory of the host");
  }
  const size_t offset = reinterpret_cast<uintptr_t>(use.address) - allocation->address();
  if (use.size > allocation->size - offset) {
    return bad(ACL_ERROR_RT_DRV_INTERNAL_ERROR, "reaches ", use.size - (allocation->size - offset),
               " bytes beyond the allocation of ", allocation->size, " bytes at ",
               reinterpret_cast<void*>(allocation->address()));
  }
  *bytes = allocation->bytes ? allocation->bytes.get() + offset : static_cast<std::byte*>(use.address);
  return {};
}

int32_t Memory::DeviceOf(const void* address) const {
  const Allocation* allocation = Find(address);
  return allocation != nullptr && allocation->place == Place::kDevice ? allocation->device : kNoDevice;
}

bool Memory::IsKnown(const void* address) const { return Find(address) != nullptr || WasFreed(address); }

size_t Memory::SizeAt(const void* address) const {
  const auto found = live_.find(reinterpret_cast<uintptr_t>(address));
  return found != live_.end() ? found->second.size : 0;
}

size_t Memory::Count(int32_t device, Place place) const {
  return static_cast<size_t>(std::count_if(live_.begin(), live_.end(), [&](const auto& entry) {
    return entry.second.device == device && entry.second.place == place;
  }));
}

void Memory::Clear(int32_t device) {
  for (auto entry = live_.begin(); entry != live_.end();) {
    const auto allocation = entry++;  // retiring removes it
    if (allocation->second.device == device) Retire(allocation);
  }
}

const Memory::Allocation* Memory::Find(const void* address) const {
  const auto number = reinterpret_cast<uintptr_t>(address);
  auto after = live_.upper_bound(number);
  if (after == live_.begin()) return nullptr;
  const Allocation& allocation = std::prev(after)->second;
  return number - allocation.address() < allocation.size ? &allocation : nullptr;
}

bool Memory::WasFreed(const void* address) const {
  const auto number = reinterpret_cast<uintptr_t>(address);
  return std::any_of(freed_.begin(), freed_.end(), [&](const Allocation& allocation) {
    return number >= allocation.address() && number - allocation.address() < allocation.size;
  });
}

void Memory::Retire(Live::iterator allocation) {
  Allocation& retired = allocation->second;
  --LiveCount(KindOf(retired.place));
  if (retired.place == Place::kHost) retired.reservation.Close();
  retired.bytes.reset();
  freed_.push_back(std::move(retired));
  live_.erase(allocation);
  if (freed_.size() > kFreed) freed_.pop_front();
}

}  // namespace poolgrad::host
