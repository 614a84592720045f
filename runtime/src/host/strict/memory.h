// The memory of the strict device, and the pinned memory that it knows of.
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

// Of every byte that nobody has written yet, or may not read: NaN in every float type, -1 in every integer one.
constexpr int kPoison = 0xFF;

// Device memory has addresses that the caller cannot touch; its bytes lie elsewhere. Pinned memory can be touched until
// it is freed. Addresses of freed memory are not given out again for a while. Not for several threads at a time.
class Memory {
 public:
  // Of the given device, also pinned memory, which ends with its context but is used by all.
  Status Allocate(int32_t device, Place place, size_t size, void** address);

  // ACL_ERROR_RT_DRV_INTERNAL_ERROR if no allocation of this place begins there.
  Status Free(Place place, void* address);

  // Where the bytes of a use are. ACL_ERROR_RT_PARAM_INVALID for memory of the other side,
  // ACL_ERROR_RT_DRV_INTERNAL_ERROR for memory that is freed or reaches out of its allocation.
  Status Reach(const Use& use, std::byte** bytes) const;

  // The device of the live device memory that the address lies in, or kNoDevice.
  int32_t DeviceOf(const void* address) const;

  // Whether it is memory that this device knows of, also if it was freed; else the caller's own.
  bool IsKnown(const void* address) const;

  // Bytes of the live allocation that begins at the address; 0 if there is none.
  size_t SizeAt(const void* address) const;

  size_t Count(int32_t device, Place place) const;

  // All memory of the device is freed.
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

  // The live allocation that the address lies in, or null.
  const Allocation* Find(const void* address) const;
  bool WasFreed(const void* address) const;
  void Retire(Live::iterator allocation);

  Live live_;
  std::deque<Allocation> freed_;
};

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_STRICT_MEMORY_H_
