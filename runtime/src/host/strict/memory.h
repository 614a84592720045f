// SPDX-License-Identifier: Apache-2.0

// The device memory and pinned memory of the strict devices.
#ifndef POOLGRAD_HOST_STRICT_MEMORY_H_
#define POOLGRAD_HOST_STRICT_MEMORY_H_

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <string>

#include "host/hardware.h"
#include "host/strict/reservation.h"

namespace poolgrad::host {

// The value of every byte that is not written yet, or must not be read: NaN in every float type, -1 in every integer
// type.
constexpr int kPoison = 0xFF;

// Device memory has addresses that the caller cannot access; its bytes are stored elsewhere. Pinned memory can be
// accessed until it is freed. Addresses of freed memory are not reused for a while. Not thread-safe.
class Memory {
 public:
  // Memory of the given device. Pinned memory is freed with the device's context, but all devices can use it.
  Status Allocate(int32_t device, Place place, size_t size, void** address);

  // ACL_ERROR_RT_DRV_INTERNAL_ERROR if no allocation of this place begins there.
  Status Free(Place place, void* address);

  // The address of the bytes of a use. ACL_ERROR_RT_PARAM_INVALID for memory of the other place (device or host),
  // ACL_ERROR_RT_DRV_INTERNAL_ERROR for freed memory and for a use that exceeds its allocation.
  Status Reach(const Use& use, std::byte** bytes) const;

  // The device of the live device memory that contains the address, or kNoDevice.
  int32_t DeviceOf(const void* address) const;

  // Whether the address is in memory that was allocated here, also if it was freed. Otherwise it is the caller's
  // memory.
  bool IsKnown(const void* address) const;

  // The size in bytes of the live allocation that begins at the address; 0 if there is none.
  size_t SizeAt(const void* address) const;

  size_t Count(int32_t device, Place place) const;

  // Frees all memory of the device.
  void Clear(int32_t device);

 private:
  struct FreeBytes {
    void operator()(std::byte* bytes) const;
  };
  struct Allocation {
    int32_t device;
    Place place;
    size_t size;
    Reservation reservation;
    std::unique_ptr<std::byte, FreeBytes> bytes;  // of device memory
    uintptr_t address() const { return reservation.address(); }
  };
  using Live = std::map<uintptr_t, Allocation>;

  // The live allocation that contains the address, or null.
  const Allocation* Find(const void* address) const;
  bool WasFreed(const void* address) const;
  void Retire(Live::iterator allocation);

  Live live_;
  std::deque<Allocation> freed_;
};

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_STRICT_MEMORY_H_
