// SPDX-License-Identifier: Apache-2.0

// Owners of the objects that acl creates: one template for all handles.
#ifndef POOLGRAD_ACLNN_HANDLES_H_
#define POOLGRAD_ACLNN_HANDLES_H_

#include <memory>

#include "aclnn/api.h"

namespace poolgrad::aclnn {

// Calls the release function of the handle, which belongs to a library opened at run time. A failure is ignored, and
// its message cleared.
template <typename T>
struct Release {
  int (*function)(T*) = nullptr;
  const char* (*recent_message)() = nullptr;

  void operator()(T* handle) const {
    if (function(handle) != ACL_SUCCESS) recent_message();
  }
};

template <typename T>
Release<T> Released(const Api& api, int (*function)(T*)) {
  return {function, api.aclGetRecentErrMsg};
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
