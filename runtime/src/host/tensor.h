// The tensors and int arrays that callers describe their data with.
#ifndef POOLGRAD_HOST_TENSOR_H_
#define POOLGRAD_HOST_TENSOR_H_

#include <string>
#include <vector>

#include "abi/acl.h"
#include "host/registry.h"

// A strided view of a storage; strides and offset count elements. Owns the description, not the data.
struct aclTensor {
  std::vector<int64_t> dims;
  std::vector<int64_t> strides;
  int64_t offset = 0;
  aclDataType dtype = ACL_DT_UNDEFINED;
  aclFormat format = ACL_FORMAT_UNDEFINED;
  std::vector<int64_t> storage_dims;
  void* data = nullptr;  // of the storage, not of the view

  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
};

struct aclIntArray {
  std::vector<int64_t> values;

  int64_t size() const { return static_cast<int64_t>(values.size()); }
};

namespace poolgrad::host {

Registry<aclTensor>& Tensors();
Registry<aclIntArray>& IntArrays();

// Product of dims; INT64_MAX if it is larger than that, 0 if any is 0.
int64_t ElementCount(const std::vector<int64_t>& dims);

// Product of the last `axes` dims, likewise.
int64_t ElementCountOfLast(const std::vector<int64_t>& dims, int64_t axes);

// Size of one element in bytes; 0 for a type that this library has no use for.
size_t ElementSize(aclDataType dtype);

// For messages: "FLOAT16", "NCDHW", "[2, 3, 4]".
std::string DtypeName(aclDataType dtype);
std::string FormatName(aclFormat format);
std::string DimsText(const std::vector<int64_t>& dims);

}  // namespace poolgrad::host

#endif  // POOLGRAD_HOST_TENSOR_H_
