// Events. As streams are synchronous, an event is complete as soon as it is recorded.

#include "host/device.h"

namespace poolgrad::host {
namespace {

struct Event {
  bool recorded = false;
};

Status RequireEvent(const Event* event) {
  if (event == nullptr) return Fail(ACL_ERROR_INVALID_PARAM, "event is null");
  return RequireCurrentDevice();
}

}  // namespace
}  // namespace poolgrad::host

using namespace poolgrad::host;

aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t /*flag*/) {
  return Boundary(__func__, [&]() -> Status {
    if (event == nullptr) return Fail(ACL_ERROR_INVALID_PARAM, "event is null");
    if (Status status = RequireCurrentDevice(); !status.ok()) return status;
    *event = new Event;
    return {};
  });
}

aclError aclrtDestroyEvent(aclrtEvent event) {
  return Boundary(__func__, [&]() -> Status {
    if (event == nullptr) return Fail(ACL_ERROR_INVALID_PARAM, "event is null");
    delete static_cast<Event*>(event);
    return {};
  });
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream /*stream*/) {
  return Boundary(__func__, [&]() -> Status {
    auto* recorded = static_cast<Event*>(event);
    if (Status status = RequireEvent(recorded); !status.ok()) return status;
    recorded->recorded = true;
    return {};
  });
}

aclError aclrtStreamWaitEvent(aclrtStream /*stream*/, aclrtEvent event) {
  return Boundary(__func__, [&] { return RequireEvent(static_cast<Event*>(event)); });
}

aclError aclrtSynchronizeEvent(aclrtEvent event) {
  return Boundary(__func__, [&] { return RequireEvent(static_cast<Event*>(event)); });
}

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status) {
  return Boundary(__func__, [&]() -> Status {
    if (status == nullptr) return Fail(ACL_ERROR_INVALID_PARAM, "status is null");
    const auto* queried = static_cast<Event*>(event);
    if (Status failed = RequireEvent(queried); !failed.ok()) return failed;
    *status = queried->recorded ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
    return {};
  });
}
