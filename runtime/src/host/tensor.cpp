// SPDX-License-Identifier: Apache-2.0

#include "host/tensor.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "host/boundary.h"
#include "host/registry.h"

namespace poolgrad::host {
namespace {

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

struct DtypeRow {
  aclDataType dtype;
  const char* name;
  size_t size;
};

constexpr DtypeRow kDtypes[] = {
    {ACL_FLOAT, "FLOAT", 4},   {ACL_FLOAT16, "FLOAT16", 2}, {ACL_BF16, "BF16", 2},     {ACL_INT8, "INT8", 1},
    {ACL_INT16, "INT16", 2},   {ACL_INT32, "INT32", 4},     {ACL_INT64, "INT64", 8},   {ACL_UINT8, "UINT8", 1},
    {ACL_UINT16, "UINT16", 2}, {ACL_UINT32, "UINT32", 4},   {ACL_UINT64, "UINT64", 8}, {ACL_DOUBLE, "DOUBLE", 8},
    {ACL_BOOL, "BOOL", 1},
};

struct FormatRow {
  aclFormat format;
  const char* name;
};

constexpr FormatRow kFormats[] = {
    {ACL_FORMAT_NCHW, "NCHW"},
    {ACL_FORMAT_NHWC, "NHWC"},
    {ACL_FORMAT_ND, "ND"},
    {ACL_FORMAT_NC1HWC0, "NC1HWC0"},
    {ACL_FORMAT_FRACTAL_Z, "FRACTAL_Z"},
    {ACL_FORMAT_NC1HWC0_C04, "NC1HWC0_C04"},
    {ACL_FORMAT_HWCN, "HWCN"},
    {ACL_FORMAT_NDHWC, "NDHWC"},
    {ACL_FORMAT_FRACTAL_NZ, "FRACTAL_NZ"},
    {ACL_FORMAT_NCDHW, "NCDHW"},
    {ACL_FORMAT_NDC1HWC0, "NDC1HWC0"},
    {ACL_FRACTAL_Z_3D, "FRACTAL_Z_3D"},
    {ACL_FORMAT_NC, "NC"},
    {ACL_FORMAT_NCL, "NCL"},
    {ACL_FORMAT_FRACTAL_NZ_C0_16, "FRACTAL_NZ_C0_16"},
    {ACL_FORMAT_FRACTAL_NZ_C0_32, "FRACTAL_NZ_C0_32"},
    {ACL_FORMAT_FRACTAL_NZ_C0_2, "FRACTAL_NZ_C0_2"},
    {ACL_FORMAT_FRACTAL_NZ_C0_4, "FRACTAL_NZ_C0_4"},
    {ACL_FORMAT_FRACTAL_NZ_C0_8, "FRACTAL_NZ_C0_8"},
};

// The row of `dtype`, or null.
const DtypeRow* FindDtype(aclDataType dtype) {
  for (const DtypeRow& row : kDtypes) {
    if (row.dtype == dtype) return &row;
  }
  return nullptr;
}

// Copies `count` values into `read`; `values` may be null only if `count` is 0.
Status ReadValues(const char* name, const int64_t* values, uint64_t count, std::vector<int64_t>& read) {
  if (values == nullptr && count > 0) {
    return Fail(ACLNN_ERR_PARAM_NULLPTR, name, " is null, but ", count, " values are announced");
  }
  if (values != nullptr) read.assign(values, values + count);
  return {};
}

Status ReadDims(const char* name, const int64_t* values, uint64_t count, std::vector<int64_t>& dims) {
  if (Status status = ReadValues(name, values, count, dims); !status.ok()) return status;
  if (std::any_of(dims.begin(), dims.end(), [](int64_t dim) { return dim < 0; })) {
    return Fail(ACLNN_ERR_PARAM_INVALID, name, " is ", DimsText(dims), "; no dimension may be negative");
  }
  if (ElementCount(dims) == kHuge) {
    return Fail(ACLNN_ERR_PARAM_INVALID, name, " is ", DimsText(dims), ", more elements than can be counted");
  }
  return {};
}

std::vector<int64_t> ContiguousStrides(const std::vector<int64_t>& dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t axis = dims.size(); axis-- > 1;) {
    // Only an empty tensor can overflow here. It has no elements, so its strides do not matter.
    if (__builtin_mul_overflow(strides[axis], dims[axis], &strides[axis - 1])) strides[axis - 1] = 0;
  }
  return strides;
}

}  // namespace

int64_t ElementCount(const std::vector<int64_t>& dims) {
  return ElementCountOfLast(dims, static_cast<int64_t>(dims.size()));
}

int64_t ElementCountOfLast(const std::vector<int64_t>& dims, int64_t axes) {
  const auto begin = dims.end() - axes;
  if (std::find(begin, dims.end(), 0) != dims.end()) return 0;
  int64_t count = 1;
  for (auto dim = begin; dim != dims.end(); ++dim) {
    if (__builtin_mul_overflow(count, *dim, &count)) return kHuge;
  }
  return count;
}

size_t ElementSize(aclDataType dtype) {
  const DtypeRow* row = FindDtype(dtype);
  return row != nullptr ? row->size : 0;
}

std::string DtypeName(aclDataType dtype) {
  const DtypeRow* row = FindDtype(dtype);
  return row != nullptr ? row->name : "aclDataType " + std::to_string(dtype);
}

std::string FormatName(aclFormat format) {
  for (const FormatRow& row : kFormats) {
    if (row.format == format) return row.name;
  }
  return "aclFormat " + std::to_string(format);
}

std::string DimsText(const std::vector<int64_t>& dims) {
  std::string text = "[";
  for (const int64_t dim : dims) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(dim);
  }
  return text + "]";
}

Registry<aclTensor>& Tensors() {
  static auto* const tensors = new Registry<aclTensor>(Kind::kTensor);  // never destroyed: calls may come at exit
  return *tensors;
}

Registry<aclIntArray>& IntArrays() {
  static auto* const arrays = new Registry<aclIntArray>(Kind::kIntArray);  // likewise
  return *arrays;
}

}  // namespace poolgrad::host

using namespace poolgrad::host;

aclTensor* aclCreateTensor(const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType, const int64_t* stride,
                           int64_t offset, aclFormat format, const int64_t* storageDims, uint64_t storageDimsNum,
                           void* tensorData) {
  aclTensor* tensor = nullptr;
  const auto body = [&]() -> Status {
    auto made = std::make_unique<aclTensor>();
    if (Status status = ReadDims("viewDims", viewDims, viewDimsNum, made->dims); !status.ok()) return status;
    if (Status status = ReadDims("storageDims", storageDims, storageDimsNum, made->storage_dims); !status.ok()) {
      return status;
    }
    made->strides =
        stride != nullptr ? std::vector<int64_t>(stride, stride + viewDimsNum) : ContiguousStrides(made->dims);
    made->offset = offset;
    made->dtype = dataType;
    made->format = format;
    made->data = tensorData;
    tensor = Tensors().Add(std::move(made));
    return {};
  };
  Boundary(__func__,
           {List("viewDims", viewDims, viewDimsNum), In("dataType", dataType), List("stride", stride, viewDimsNum),
            In("offset", offset), In("format", format), List("storageDims", storageDims, storageDimsNum),
            In("tensorData", tensorData), Out("tensor", &tensor)},
           body);
  return tensor;
}

aclnnStatus aclDestroyTensor(const aclTensor* tensor) {
  return Boundary(__func__, {In("tensor", tensor)},
                  [&] { return tensor != nullptr ? Tensors().Remove(tensor, ACLNN_ERR_INNER) : Status{}; });
}

aclIntArray* aclCreateIntArray(const int64_t* value, uint64_t size) {
  aclIntArray* array = nullptr;
  Boundary(__func__, {List("value", value, size), In("size", size), Out("array", &array)}, [&]() -> Status {
    auto made = std::make_unique<aclIntArray>();
    if (Status status = ReadValues("value", value, size, made->values); !status.ok()) return status;
    array = IntArrays().Add(std::move(made));
    return {};
  });
  return array;
}

aclnnStatus aclDestroyIntArray(const aclIntArray* array) {
  return Boundary(__func__, {In("array", array)},
                  [&] { return array != nullptr ? IntArrays().Remove(array, ACLNN_ERR_INNER) : Status{}; });
}
