// SPDX-License-Identifier: Apache-2.0

// Reserved address ranges of the process.
#ifndef POOLGRAD_HOST_STRICT_RESERVATION_H_
#define POOLGRAD_HOST_STRICT_RESERVATION_H_

#include <cstddef>
#include <cstdint>
#include <utility>

namespace poolgrad::host {

// A range of `size` bytes from address() on that cannot be accessed, between guard pages. The range ends at the second
// guard page as closely as an address that is a multiple of 64 allows.
class Reservation {
 public:
  Reservation() = default;
  explicit Reservation(size_t size);  // throws std::bad_alloc
  ~Reservation();
  Reservation(Reservation&& other) noexcept { *this = std::move(other); }
  Reservation& operator=(Reservation&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(length_, other.length_);
    std::swap(address_, other.address_);
    return *this;
  }

  uintptr_t address() const { return address_; }

  void Open();   // makes the bytes readable and writable; throws std::bad_alloc
  void Close();  // makes them inaccessible and discards their contents

 private:
  std::byte* base_ = nullptr;
  size_t length_ = 0;  // with the pages on both sides
  uintptr_t address_ = 0;
};

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_STRICT_RESERVATION_H_
