// Addresses of the process that nothing else gets.
#ifndef POOLGRAD_HOST_STRICT_RESERVATION_H_
#define POOLGRAD_HOST_STRICT_RESERVATION_H_

#include <cstddef>
#include <cstdint>
#include <utility>

namespace poolgrad::host {

// `size` bytes from address() on that cannot be touched, with more such bytes on both sides. The address is a multiple
// of 64 and of nothing more; the end lies right before addresses that cannot be touched either.
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

  void Open();   // from now on the bytes can be read and written; throws std::bad_alloc
  void Close();  // no longer, and what they held is gone

 private:
  std::byte* base_ = nullptr;
  size_t length_ = 0;  // with the pages on both sides
  uintptr_t address_ = 0;
};

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_STRICT_RESERVATION_H_
