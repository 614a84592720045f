// SPDX-License-Identifier: Apache-2.0

// The tensors and int arrays that callers create to describe their data.
#ifndef POOLGRAD_HOST_TENSOR_H_
#define POOLGRAD_HOST_TENSOR_H_

#include <string>
#include <vector>

#include "abi/acl.h"

// A strided view of a storage; strides and offset count elements. Does not own the data.
struct aclTensor {
  std::vector<int64_t> dims;
  std::vector<int64_t> strides;
  int64_t offset = 0;
  aclDataType dtype = ACL_DT_UNDEFINED;
  aclFormat format = ACL_FORMAT_UNDEFINED;
  std::vector<int64_t> storage_dims;
  void* data = nullptr;  // start of the storage, not of the view

  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
};

struct aclIntArray {
  std::vector<int64_t> values;

  int64_t size() const { return static_cast<int64_t>(values.size()); }
};

namespace poolgrad::host {

template <typename T>
class Registry;  // host/registry.h

Registry<aclTensor>& Tensors();
Registry<aclIntArray>& IntArrays();

// The product of dims: 0 if any is 0, else INT64_MAX if it overflows.
int64_t ElementCount(const std::vector<int64_t>& dims);

// The product of the last `axes` dims, likewise.
int64_t ElementCountOfLast(const std::vector<int64_t>& dims, int64_t axes);

// The size of one element in bytes; 0 for a type that this library does not support.
size_t ElementSize(aclDataType dtype);

// For messages: "FLOAT16", "NCDHW", "[2, 3, 4]".
std::string DtypeName(aclDataType dtype);
std::string FormatName(aclFormat format);
std::string DimsText(const std::vector<int64_t>& dims);

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_TENSOR_H_
