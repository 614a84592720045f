#include "host/stream.h"

#include "host/device.h"

namespace poolgrad::host {
namespace {

// Synchronous streams have no state: the object is there for its address.
struct Stream {};

}  // namespace

Status Submit(aclrtStream /*stream*/, const Task& task) { return task(); }

}  // namespace poolgrad::host

using namespace poolgrad::host;

aclError aclrtCreateStream(aclrtStream* stream) {
  return Boundary(__func__, [&]() -> Status {
    if (stream == nullptr) return Fail(ACL_ERROR_INVALID_PARAM, "stream is null");
    if (Status status = RequireCurrentDevice(); !status.ok()) return status;
    *stream = new Stream;
    return {};
  });
}

aclError aclrtDestroyStream(aclrtStream stream) {
  return Boundary(__func__, [&]() -> Status {
    if (stream == nullptr) return Fail(ACL_ERROR_INVALID_PARAM, "stream is null");
    delete static_cast<Stream*>(stream);
    return {};
  });
}

aclError aclrtSynchronizeStream(aclrtStream /*stream*/) { return Boundary(__func__, RequireCurrentDevice); }

aclError aclrtStreamQuery(aclrtStream /*stream*/, aclrtStreamStatus* status) {
  return Boundary(__func__, [&]() -> Status {
    if (status == nullptr) return Fail(ACL_ERROR_INVALID_PARAM, "status is null");
    if (Status failed = RequireCurrentDevice(); !failed.ok()) return failed;
    *status = ACL_STREAM_STATUS_COMPLETE;
    return {};
  });
}
