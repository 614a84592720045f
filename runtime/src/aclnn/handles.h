// SPDX-License-Identifier: Apache-2.0

// Owners of the objects that acl creates: one template for all handles.
#ifndef POOLGRAD_ACLNN_HANDLES_H_
#define POOLGRAD_ACLNN_HANDLES_H_

#include <memory>

#include "aclnn/backend.h"
#include "aclnn/device_scope.h"
#include "aclnn/failure.h"

namespace poolgrad::aclnn {

// Calls the release function of the handle, which belongs to a library opened at run time, with the handle's device
// current. Does not call it if that is impossible: acl, or the context of the device, has ended, and what the handle
// refers to with it. A failure is ignored, and its message cleared.
template <typename T>
struct Release {
  const Backend* backend = nullptr;
  int (*function)(T*) = nullptr;

  void operator()(T* handle) const noexcept {
    if (function == nullptr) return;
    if (const ClosingScope scope(*backend); scope.is_current()) Tolerate(backend->api(), function(handle));
  }
};

template <typename T>
Release<T> Released(const Backend& backend, int (*function)(T*)) {
  return {&backend, function};
}

template <typename T, typename Destroyed = T>
using Handle = std::unique_ptr<T, Release<Destroyed>>;

using TensorHandle = Handle<aclTensor, const aclTensor>;
using IntArrayHandle = Handle<aclIntArray, const aclIntArray>;
using ExecutorHandle = Handle<aclOpExecutor>;
using EventHandle = Handle<void>;  // aclrtEvent and aclrtStream are void*
using MemoryHandle = Handle<void>;
using StreamHandle = std::shared_ptr<void>;  // shared with threads that wait for a stream while it is replaced

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_HANDLES_H_
