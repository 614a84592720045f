// SPDX-License-Identifier: Apache-2.0

// The functions of CANN that torch_npu calls for copies and pools and the host library lacks. Enumerations are int.
#ifndef TESTS_TORCH_NPU_CANN_H_
#define TESTS_TORCH_NPU_CANN_H_

#include <cstddef>
#include <cstdint>

#include "abi/acl.h"

struct aclCANNPackageVersion {
  char version[128];
  char major[64];
  char minor[64];
  char release[64];
  char patch[64];
  char reserved[128];
};

#pragma GCC visibility push(default)
extern "C" {

void aclAppLog(int level, const char* function, const char* file, uint32_t line, const char* format, ...);

// As functions of the host library, with options that it does not have. The options have no effect.
aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t priority, uint32_t flag);
aclError aclrtDestroyStreamForce(aclrtStream stream);
aclError aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t flag);
aclError aclrtMallocAlign32(void** memory, size_t size, aclrtMemMallocPolicy policy);

aclError aclrtSetDeviceSatMode(int mode);
aclError aclrtSetStreamOverflowSwitch(aclrtStream stream, uint32_t flag);
aclError aclrtSetOpExecuteTimeOut(uint32_t seconds);
aclError aclrtGetPrimaryCtxState(int32_t device, uint32_t* flags, int32_t* active);
aclError aclrtDeviceCanAccessPeer(int32_t* can_access, int32_t device, int32_t peer);
aclError aclGetDeviceCapability(uint32_t device, int info, int64_t* value);
aclError aclGetCannAttribute(int attribute, int32_t* value);
aclError aclsysGetCANNVersion(int package, aclCANNPackageVersion* version);

aclError aclSetCompileopt(int option, const char* value);
size_t aclGetCompileoptSize(int option);
aclError aclGetCompileopt(int option, char* value, size_t length);

// Of the profiler; nothing is profiled.
int32_t MsprofRegisterCallback(uint32_t module, void* handle);
int32_t MsprofReportApi(uint32_t aging, const void* api);
int32_t MsprofReportCompactInfo(uint32_t aging, const void* data, uint32_t length);
int32_t MsprofReportAdditionalInfo(uint32_t aging, const void* data, uint32_t length);
uint64_t MsprofGetHashId(const char* text, size_t length);
uint64_t MsprofSysCycleTime();

aclnnStatus aclnnInplaceCopyGetWorkspaceSize(aclTensor* self_ref, const aclTensor* src, uint64_t* workspace_size,
                                             aclOpExecutor** executor);
aclnnStatus aclnnInplaceCopy(void* workspace, uint64_t workspace_size, aclOpExecutor* executor, aclrtStream stream);

aclnnStatus aclnnMaxPool2dWithMaskGetWorkspaceSize(const aclTensor* self, const aclIntArray* kernel_size,
                                                   const aclIntArray* stride, const aclIntArray* padding,
                                                   const aclIntArray* dilation, bool ceil_mode, aclTensor* out,
                                                   aclTensor* indices, uint64_t* workspace_size,
                                                   aclOpExecutor** executor);
aclnnStatus aclnnMaxPool2dWithMask(void* workspace, uint64_t workspace_size, aclOpExecutor* executor,
                                   aclrtStream stream);
aclnnStatus aclnnMaxPool2dWithMaskBackwardGetWorkspaceSize(const aclTensor* grad_output, const aclTensor* self,
                                                           const aclTensor* indices, const aclIntArray* kernel_size,
                                                           const aclIntArray* stride, const aclIntArray* padding,
                                                           const aclIntArray* dilation, bool ceil_mode,
                                                           aclTensor* grad_input, uint64_t* workspace_size,
                                                           aclOpExecutor** executor);
aclnnStatus aclnnMaxPool2dWithMaskBackward(void* workspace, uint64_t workspace_size, aclOpExecutor* executor,
                                           aclrtStream stream);

}  // extern "C"
#pragma GCC visibility pop

#endif  // TESTS_TORCH_NPU_CANN_H_
