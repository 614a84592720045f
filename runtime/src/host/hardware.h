// The seam between the ABI and what stands in for the devices: their memory, streams and events. There are two
// implementations, one for each mode. What is made belongs to the device that is current on the calling thread.
// Arguments are not null; a null stream is the default stream of the context.
#ifndef POOLGRAD_HOST_HARDWARE_H_
#define POOLGRAD_HOST_HARDWARE_H_

#include <array>
#include <functional>
#include <initializer_list>

#include "host/device.h"
#include "host/status.h"

namespace poolgrad::host {

enum class Place { kDevice, kHost };

// Memory that work reads or writes: `size` bytes from an address of the caller's on.
struct Use {
  const char* name;  // as CANN names it
  void* address;
  size_t size;
  Place place;
  bool written;
  bool whole = true;  // every byte of it is; else some lie between strided elements
};

constexpr size_t kMaxUses = 5;

// The uses of one piece of work, in place: work is queued by the dozen, and asks for no memory for them.
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

// Where this library reaches the memory of each use, in their order.
using Addresses = std::array<std::byte*, kMaxUses>;

// Owns all that it needs but the memory it uses, so that it may outlive the call that submits it.
struct Work {
  Uses uses;
  std::function<Status(const Addresses&)> run;
  bool is_kernel = false;      // what is wrong with its addresses shows no earlier than when it runs
  int32_t device = kNoDevice;  // that runs it; set where it is submitted
};

class Hardware {
 public:
  virtual ~Hardware() = default;

  virtual aclrtRunMode RunMode() const = 0;

  // Device memory, or pinned memory of the host. The size is not 0.
  virtual Status Allocate(Place place, size_t size, void** memory) = 0;
  virtual Status Free(Place place, void* memory) = 0;

  // Runs in no stream, and without waiting for any.
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

  // The context of the device ends, and with it all that the device had in it.
  virtual void EndContext(int32_t device) = 0;
};

Hardware& LenientHardware();
Hardware& StrictHardware();

// That of the current mode.
Hardware& TheHardware();

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_HARDWARE_H_
