// SPDX-License-Identifier: Apache-2.0

// The functions of streams.

#include "host/boundary.h"
#include "host/device.h"
#include "host/hardware.h"

using namespace poolgrad::host;

aclError aclrtCreateStream(aclrtStream* stream) {
  return Boundary(__func__, {Out("stream", stream)}, [&]() -> Status {
    if (stream == nullptr) return Fail(ACL_ERROR_INVALID_PARAM, "stream is null");
    if (Status status = RequireCurrentDevice(); !status.ok()) return status;
    return TheHardware().CreateStream(stream);
  });
}

aclError aclrtDestroyStream(aclrtStream stream) {
  return Boundary(__func__, {In("stream", stream)}, [&]() -> Status {
    if (stream == nullptr) return Fail(ACL_ERROR_INVALID_PARAM, "stream is null");
    return TheHardware().DestroyStream(stream);
  });
}

aclError aclrtSynchronizeStream(aclrtStream stream) {
  return Boundary(__func__, {In("stream", stream)}, [&]() -> Status {
    if (Status status = RequireCurrentDevice(); !status.ok()) return status;
    return TheHardware().Synchronize(stream);
  });
}

aclError aclrtSynchronizeDevice() {
  return Boundary(__func__, {}, []() -> Status {
    if (Status status = RequireCurrentDevice(); !status.ok()) return status;
    return TheHardware().SynchronizeAll();
  });
}

aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus* status) {
  return Boundary(__func__, {In("stream", stream), Out("status", status)}, [&]() -> Status {
    if (status == nullptr) return Fail(ACL_ERROR_INVALID_PARAM, "status is null");
    if (Status failed = RequireCurrentDevice(); !failed.ok()) return failed;
    return TheHardware().Query(stream, status);
  });
}
