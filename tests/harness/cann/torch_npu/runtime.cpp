// SPDX-License-Identifier: Apache-2.0

// Functions of the runtime, of the compiler's options and of the profiler. Settings have no effect.

#include <cstring>

#include "cann.h"

namespace {

// The value of every option of the operator compiler.
constexpr char kCompileOption[] = "disable";

// Of every package. torch_npu sets the switch of determinism only on releases that it knows.
constexpr char kVersion[] = "9.1.0";

}  // namespace

void aclAppLog(int /*level*/, const char* /*function*/, const char* /*file*/, uint32_t /*line*/, const char* /*format*/,
               ...) {}

aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t /*priority*/, uint32_t /*flag*/) {
  return aclrtCreateStream(stream);
}

aclError aclrtDestroyStreamForce(aclrtStream stream) { return aclrtDestroyStream(stream); }

aclError aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t /*flag*/) {
  return aclrtCreateEventWithFlag(event, ACL_EVENT_SYNC);
}

aclError aclrtMallocAlign32(void** memory, size_t size, aclrtMemMallocPolicy policy) {
  return aclrtMalloc(memory, size, policy);
}

aclError aclrtSetDeviceSatMode(int /*mode*/) { return ACL_SUCCESS; }

aclError aclrtSetStreamOverflowSwitch(aclrtStream /*stream*/, uint32_t /*flag*/) { return ACL_SUCCESS; }

aclError aclrtSetOpExecuteTimeOut(uint32_t /*seconds*/) { return ACL_SUCCESS; }

aclError aclrtGetPrimaryCtxState(int32_t /*device*/, uint32_t* flags, int32_t* active) {
  *flags = 0;
  *active = 1;
  return ACL_SUCCESS;
}

aclError aclrtDeviceCanAccessPeer(int32_t* can_access, int32_t /*device*/, int32_t /*peer*/) {
  *can_access = 0;
  return ACL_SUCCESS;
}

aclError aclGetDeviceCapability(uint32_t /*device*/, int /*info*/, int64_t* value) {
  *value = 0;
  return ACL_SUCCESS;
}

aclError aclGetCannAttribute(int /*attribute*/, int32_t* value) {
  *value = 0;
  return ACL_SUCCESS;
}

aclError aclsysGetCANNVersion(int /*package*/, aclCANNPackageVersion* version) {
  *version = {};
  std::memcpy(version->version, kVersion, sizeof(kVersion));
  return ACL_SUCCESS;
}

aclError aclSetCompileopt(int /*option*/, const char* /*value*/) { return ACL_SUCCESS; }

size_t aclGetCompileoptSize(int /*option*/) { return sizeof(kCompileOption); }

aclError aclGetCompileopt(int /*option*/, char* value, size_t length) {
  if (length < sizeof(kCompileOption)) return ACL_ERROR_INVALID_PARAM;
  std::memcpy(value, kCompileOption, sizeof(kCompileOption));
  return ACL_SUCCESS;
}

int32_t MsprofRegisterCallback(uint32_t /*module*/, void* /*handle*/) { return 0; }
int32_t MsprofReportApi(uint32_t /*aging*/, const void* /*api*/) { return 0; }
int32_t MsprofReportCompactInfo(uint32_t /*aging*/, const void* /*data*/, uint32_t /*length*/) { return 0; }
int32_t MsprofReportAdditionalInfo(uint32_t /*aging*/, const void* /*data*/, uint32_t /*length*/) { return 0; }
uint64_t MsprofGetHashId(const char* /*text*/, size_t /*length*/) { return 0; }
uint64_t MsprofSysCycleTime() { return 0; }
