// Streams: the order in which work reaches the device.
#ifndef POOLGRAD_HOST_STREAM_H_
#define POOLGRAD_HOST_STREAM_H_

#include <functional>

#include "host/status.h"

namespace poolgrad::host {

// Work that owns all it needs but device memory, so that it may outlive the call that submits it.
using Task = std::function<Status()>;

// Puts a task on a stream (null is the default stream). Streams here are synchronous: the task runs at once,
// on the calling thread, and what went wrong is returned.
Status Submit(aclrtStream stream, const Task& task);

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_STREAM_H_
