// Owners of what acl creates: one template for every handle.
#ifndef POOLGRAD_ACLNN_HANDLES_H_
#define POOLGRAD_ACLNN_HANDLES_H_

#include <memory>

#include "aclnn/api.h"

namespace poolgrad::aclnn {

// Calls the release function that came with the handle, which lives in a library opened at run time.
template <typename Released>
struct Release {
  int (*function)(Released*) = nullptr;
  void operator()(Released* handle) const { function(handle); }
};

template <typename T, typename Released = T>
using Handle = std::unique_ptr<T, Release<Released>>;

using TensorHandle = Handle<aclTensor, const aclTensor>;
using IntArrayHandle = Handle<aclIntArray, const aclIntArray>;
using ExecutorHandle = Handle<aclOpExecutor>;
using EventHandle = Handle<void>;  // aclrtEvent and aclrtStream are void*
using MemoryHandle = Handle<void>;
using StreamHandle = std::shared_ptr<void>;  // shared with threads that wait for the stream while it is replaced

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_HANDLES_H_
