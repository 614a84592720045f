// SPDX-License-Identifier: Apache-2.0

// The interface between the ABI and the simulated devices: their memory, streams and events. There is one
// implementation for each mode. A new object belongs to the current device of the calling thread. Arguments are not
// null, except that a null stream is the default stream of the context.
#ifndef POOLGRAD_HOST_HARDWARE_H_
#define POOLGRAD_HOST_HARDWARE_H_

#include <array>
#include <functional>
#include <initializer_list>

#include "host/device.h"
#include "host/status.h"

namespace poolgrad::host {

enum class Place { kDevice, kHost };

// Memory that work reads or writes: `size` bytes from an address that the caller knows.
struct Use {
  const char* name;  // CANN's name of the argument
  void* address;
  size_t size;
  Place place;
  bool written;
  bool whole = true;  // every byte is used; else some bytes lie between strided elements
};

constexpr size_t kMaxUses = 5;

// The uses of one piece of work, stored in place, so that work needs no allocation for them.
class Uses {
 public:
  Uses() = default;
  Uses(std::initializer_list<Use> uses) {
    for (const Use& use : uses) push_back(use);
  }

  void push_back(const Use& use) { uses_.at(size_++) = use; }

  size_t size() const { return size_; }
  Use& operator[](size_t index) { return uses_[index]; }
  const Use& operator[](size_t index) const { return uses_[index]; }
  const Use* begin() const { return uses_.data(); }
  const Use* end() const { return uses_.data() + size_; }

 private:
  std::array<Use, kMaxUses> uses_ = {};
  size_t size_ = 0;
};

// The addresses in the process of the memory of each use, in their order.
using Addresses = std::array<std::byte*, kMaxUses>;

// Owns everything except the memory that it uses, so that it may outlive the call that submits it.
struct Work {
  Uses uses;
  std::function<Status(const Addresses&)> run;
  bool is_kernel = false;      // its addresses are checked when it runs, not when it is submitted
  int32_t device = kNoDevice;  // the device that runs it; set when it is submitted
};

class Hardware {
 public:
  virtual ~Hardware() = default;

  virtual aclrtRunMode RunMode() const = 0;

  // Device memory, or pinned memory of the host. The size is not 0.
  virtual Status Allocate(Place place, size_t size, void** memory) = 0;
  virtual Status Free(Place place, void* memory) = 0;

  // Runs the work outside of streams, and waits for none.
  virtual Status RunNow(Work work) = 0;
  virtual Status Submit(aclrtStream stream, Work work) = 0;

  virtual Status CreateStream(aclrtStream* stream) = 0;
  virtual Status DestroyStream(aclrtStream stream) = 0;
  virtual Status Synchronize(aclrtStream stream) = 0;
  virtual Status SynchronizeAll() = 0;  // every stream of the current device
  virtual Status Query(aclrtStream stream, aclrtStreamStatus* status) = 0;

  virtual Status CreateEvent(aclrtEvent* event) = 0;
  virtual Status DestroyEvent(aclrtEvent event) = 0;
  virtual Status RecordEvent(aclrtEvent event, aclrtStream stream) = 0;
  virtual Status Wait(aclrtStream stream, aclrtEvent event) = 0;
  virtual Status SynchronizeEvent(aclrtEvent event) = 0;
  virtual Status QueryEvent(aclrtEvent event, aclrtEventRecordedStatus* status) = 0;

  // Ends the context of the device, with all its objects.
  virtual void EndContext(int32_t device) = 0;
};

Hardware& LenientHardware();
Hardware& StrictHardware();

// The implementation for the current mode.
Hardware& TheHardware();

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_HARDWARE_H_
