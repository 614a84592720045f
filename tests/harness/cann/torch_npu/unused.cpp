// SPDX-License-Identifier: Apache-2.0

// Functions that torch_npu is linked with and does not call for copies and pools. A call ends the process.

#include <cstdio>
#include <cstdlib>

namespace {

[[noreturn]] void Stop(const char* function) {
  std::fprintf(stderr, "the stand-in for CANN has no %s\n", function);
  std::abort();
}

}  // namespace

#define UNUSED(name) \
  extern "C" __attribute__((visibility("default"))) void name() { Stop(#name); }

UNUSED(aclCreateDataBuffer)
UNUSED(aclCreateTensorDesc)
UNUSED(aclDestroyDataBuffer)
UNUSED(aclDestroyTensorDesc)
UNUSED(aclGetTensorDescDimV2)
UNUSED(aclGetTensorDescFormat)
UNUSED(aclGetTensorDescNumDims)
UNUSED(aclGetTensorDescType)
UNUSED(aclSetTensorDescName)
UNUSED(aclSetTensorFormat)
UNUSED(aclSetTensorPlaceMent)
UNUSED(aclSetTensorShape)
UNUSED(aclmdlFinalizeDump)
UNUSED(aclmdlInitDump)
UNUSED(aclmdlSetDump)
UNUSED(aclopCompileAndExecute)
UNUSED(aclopCreateAttr)
UNUSED(aclopDestroyAttr)
UNUSED(aclopSetAttrBool)
UNUSED(aclopSetAttrDataType)
UNUSED(aclopSetAttrFloat)
UNUSED(aclopSetAttrInt)
UNUSED(aclopSetAttrListBool)
UNUSED(aclopSetAttrListFloat)
UNUSED(aclopSetAttrListInt)
UNUSED(aclopSetAttrListListInt)
UNUSED(aclopSetAttrString)
UNUSED(aclrtBinaryGetFunction)
UNUSED(aclrtBinaryLoadFromData)
UNUSED(aclrtDeviceEnablePeerAccess)
UNUSED(aclrtDeviceGetBareTgid)
UNUSED(aclrtEventElapsedTime)
UNUSED(aclrtFreePhysical)
UNUSED(aclrtGetFunctionAddr)
UNUSED(aclrtMallocPhysical)
UNUSED(aclrtMapMem)
UNUSED(aclrtMemExportToShareableHandle)
UNUSED(aclrtMemImportFromShareableHandle)
UNUSED(aclrtMemSetPidToShareableHandle)
UNUSED(aclrtProcessReport)
UNUSED(aclrtReleaseMemAddress)
UNUSED(aclrtReserveMemAddress)
UNUSED(aclrtResetEvent)
UNUSED(aclrtUnmapMem)
UNUSED(rtDevBinaryRegister)
UNUSED(rtFunctionRegister)
UNUSED(rtGetC2cCtrlAddr)
UNUSED(rtKernelLaunch)
