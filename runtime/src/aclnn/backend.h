// SPDX-License-Identifier: Apache-2.0

// A backend: the aclnn API of one implementation, initialised, with one device.
#ifndef POOLGRAD_ACLNN_BACKEND_H_
#define POOLGRAD_ACLNN_BACKEND_H_

#include <string>

#include "aclnn/api.h"
#include "aclnn/probe.h"
#include "aclnn/product.h"

namespace poolgrad::aclnn {

enum class BackendKind { kHost, kCann };

// Device numbers count the devices that ASCEND_RT_VISIBLE_DEVICES leaves visible.
constexpr std::int32_t kFirstDevice = 0;

const char* NameOf(BackendKind kind);

// Opens the libraries of a backend; see LoadApi.
Api LoadApiOf(BackendKind kind, Discovery& found);

class Backend {
 public:
  // The process's backend of this kind and device, opened at the first call. Throws std::runtime_error with the cause;
  // a later call tries again. A backend lives as long as the process: acl is never finalised, because other libraries
  // of the process may use it.
  static const Backend& Open(BackendKind kind, std::int32_t device = kFirstDevice);

  BackendKind kind() const { return kind_; }
  const Api& api() const { return api_; }
  std::int32_t device() const { return device_; }
  std::uint32_t device_count() const { return device_count_; }  // of all devices that the process sees
  const std::string& soc_name() const { return soc_name_; }
  Product product() const { return product_; }
  Probes& probes() const { return probes_; }

  // Whether the device works on host memory: the process runs on the device, or the device is the host. Otherwise
  // operands must be in memory from aclrtMalloc.
  bool shares_host_memory() const { return shares_host_memory_; }

 private:
  Backend(BackendKind kind, std::int32_t device, const Api& api);

  BackendKind kind_;
  std::int32_t device_;
  Api api_;
  std::uint32_t device_count_;
  std::string soc_name_;
  Product product_;
  mutable Probes probes_;  // a cache
  bool shares_host_memory_;
};

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_BACKEND_H_
