// SPDX-License-Identifier: Apache-2.0

#include "host/strict/reservation.h"

#include <sys/mman.h>
#include <unistd.h>

#include <limits>
#include <new>

namespace poolgrad::host {
namespace {

constexpr size_t kAlignment = 64;  // as aclrtMalloc aligns
constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

size_t RoundUp(size_t size, size_t unit) { return (size + unit - 1) / unit * unit; }

size_t PageSize() {
  static const auto size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

}  // namespace

Reservation::Reservation(size_t size) {
  const size_t page = PageSize();
  if (size > std::numeric_limits<size_t>::max() - 4 * page) throw std::bad_alloc();
  const size_t used = RoundUp(size, kAlignment);
  const size_t length = RoundUp(used, page) + 2 * page;
  void* base = mmap(nullptr, length, PROT_NONE, kFlags, -1, 0);
  if (base == MAP_FAILED) throw std::bad_alloc();
  base_ = static_cast<std::byte*>(base);
  length_ = length;
  address_ = reinterpret_cast<uintptr_t>(base_) + length_ - page - used;
}

Reservation::~Reservation() {
  if (base_ != nullptr) munmap(base_, length_);
}

void Reservation::Open() {
  const size_t page = PageSize();
  if (mprotect(base_ + page, length_ - 2 * page, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
}

void Reservation::Close() {
  // Replaces the mapping, which frees its memory. This cannot fail, because the range is mapped already.
  mmap(base_, length_, PROT_NONE, kFlags | MAP_FIXED, -1, 0);
}

}  // namespace poolgrad::host
