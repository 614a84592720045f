// SPDX-License-Identifier: Apache-2.0

// The functions of events.

#include "host/boundary.h"
#include "host/device.h"
#include "host/hardware.h"

namespace poolgrad::host {
namespace {

Status RequireEvent(const void* event) {
  if (event == nullptr) return Fail(ACL_ERROR_INVALID_PARAM, "event is null");
  return RequireCurrentDevice();
}

}  // namespace
}  // namespace poolgrad::host

using namespace poolgrad::host;

aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t flag) {
  return Boundary(__func__, {In("flag", flag), Out("event", event)}, [&] {
    Status status = RequireEvent(event);
    return status.ok() ? TheHardware().CreateEvent(event) : status;
  });
}

aclError aclrtDestroyEvent(aclrtEvent event) {
  return Boundary(__func__, {In("event", event)}, [&]() -> Status {
    if (event == nullptr) return Fail(ACL_ERROR_INVALID_PARAM, "event is null");
    return TheHardware().DestroyEvent(event);
  });
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
  return Boundary(__func__, {In("event", event), In("stream", stream)}, [&] {
    Status status = RequireEvent(event);
    return status.ok() ? TheHardware().RecordEvent(event, stream) : status;
  });
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
  return Boundary(__func__, {In("stream", stream), In("event", event)}, [&] {
    Status status = RequireEvent(event);
    return status.ok() ? TheHardware().Wait(stream, event) : status;
  });
}

aclError aclrtSynchronizeEvent(aclrtEvent event) {
  return Boundary(__func__, {In("event", event)}, [&] {
    Status status = RequireEvent(event);
    return status.ok() ? TheHardware().SynchronizeEvent(event) : status;
  });
}

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status) {
  return Boundary(__func__, {In("event", event), Out("status", status)}, [&]() -> Status {
    if (status == nullptr) return Fail(ACL_ERROR_INVALID_PARAM, "status is null");
    if (Status failed = RequireEvent(event); !failed.ok()) return failed;
    return TheHardware().QueryEvent(event, status);
  });
}
