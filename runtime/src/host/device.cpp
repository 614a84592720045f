#include "host/device.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "host/boundary.h"
#include "host/executor.h"
#include "host/hardware.h"
#include "host/mode.h"
#include "host/settings.h"
#include "host/tensor.h"
#include "host/violations.h"

namespace poolgrad::host {
namespace {

constexpr int32_t kDeviceId = 0;
constexpr uint32_t kDeviceCount = 1;
constexpr uint64_t kNoContext = 0;
constexpr char kVersion[] = "8.5.0.host";  // of the CANN whose ABI this is; of every package

using SysParams = std::map<aclSysParamOpt, int64_t>;

// State of the process. A context lives from the first aclrtSetDevice to the last aclrtResetDevice.
struct Process {
  std::mutex mutex;
  const Soc* soc = nullptr;  // set between aclInit and aclFinalize
  uint64_t references = 0;   // aclrtSetDevice without its aclrtResetDevice
  uint64_t context = 1;      // number of the context that lives now or will be next
  SysParams context_params;
  SysParams process_params;

  void EndContext() {
    TheHardware().EndContext();
    references = 0;
    ++context;
    context_params.clear();
  }
};

Process& TheProcess() {
  static Process process;
  return process;
}

// The context that the thread has as its current one; stale once that context ended.
thread_local uint64_t current_context = kNoContext;

bool HasCurrentDevice(const Process& process) { return process.references > 0 && current_context == process.context; }

Status NoCurrentDevice() {
  return Fail(ACL_ERROR_RT_CONTEXT_NULL,
              "the calling thread has no current device; call aclrtSetDevice on this thread first");
}

Status CheckDeviceId(int32_t device) {
  if (device == kDeviceId) return {};
  return Fail(ACL_ERROR_RT_INVALID_DEVICEID, "device ", device, " does not exist; there is one device, 0");
}

Status CheckSysParam(aclSysParamOpt option) {
  if (option >= ACL_OPT_DETERMINISTIC && option <= ACL_OPT_STRONG_CONSISTENCY) return {};
  return Fail(ACL_ERROR_RT_PARAM_INVALID, "option ", option, " is unknown; 0, 1 and 2 are known");
}

Status ChosenSoc(const Soc*& soc) {
  const char* setting = std::getenv("ACLNN_HOST_SOC");
  const std::string_view name = setting != nullptr ? std::string_view(setting) : kDefaultSoc;
  soc = FindSoc(name);
  if (soc != nullptr) return {};
  return Fail(ACL_ERROR_RT_NO_DEVICE, "ACLNN_HOST_SOC is \"", name,
              "\", which is no SoC name of CANN; leave it unset for ", kDefaultSoc,
              ", or name one exactly, such as Ascend910B1 or Ascend910_9391");
}

Status Init() {
  Process& process = TheProcess();
  const std::lock_guard lock(process.mutex);
  if (process.soc != nullptr) return {ACL_ERROR_REPEAT_INITIALIZE, ""};  // as in CANN, which counts, without a message
  if (Status status = EnvironmentStatus(); !status.ok()) return status;
  if (Status status = ReadMode(); !status.ok()) return status;
  return ChosenSoc(process.soc);
}

Status Finalize() {
  Process& process = TheProcess();
  const std::lock_guard lock(process.mutex);
  if (process.soc == nullptr) return Fail(ACL_ERROR_REPEAT_FINALIZE, "acl is not initialized");
  process.EndContext();
  RecordLeak(Kind::kTensor, Tensors().RemoveAll().size(), "acl is finalized");
  RecordLeak(Kind::kIntArray, IntArrays().RemoveAll().size(), "acl is finalized");
  RecordLeak(Kind::kExecutor, Executors().RemoveAll().size(), "acl is finalized");
  process.process_params.clear();
  process.soc = nullptr;
  return {};
}

Status SetDevice(int32_t device) {
  Process& process = TheProcess();
  const std::lock_guard lock(process.mutex);
  if (process.soc == nullptr) return Fail(ACL_ERROR_UNINITIALIZE, "call aclInit first");
  if (Status status = CheckDeviceId(device); !status.ok()) return status;
  ++process.references;
  current_context = process.context;
  return {};
}

Status ResetDevice(int32_t device) {
  Process& process = TheProcess();
  const std::lock_guard lock(process.mutex);
  if (Status status = CheckDeviceId(device); !status.ok()) return status;
  if (process.references == 0) {
    return Fail(ACL_ERROR_RT_CONTEXT_NULL, "device ", device, " is reset more often than it was set");
  }
  if (--process.references == 0) process.EndContext();
  return {};
}

Status GetDevice(int32_t* device) {
  if (device == nullptr) return Fail(ACL_ERROR_INVALID_PARAM, "deviceId is null");
  if (Status status = RequireCurrentDevice(); !status.ok()) return status;
  *device = kDeviceId;
  return {};
}

// CANN keeps a value per context and one per process; setting the context's sets both.
Status SetContextParam(aclSysParamOpt option, int64_t value) {
  if (Status status = CheckSysParam(option); !status.ok()) return status;
  Process& process = TheProcess();
  const std::lock_guard lock(process.mutex);
  if (!HasCurrentDevice(process)) return NoCurrentDevice();
  process.context_params[option] = value;
  process.process_params[option] = value;
  return {};
}

Status GetContextParam(aclSysParamOpt option, int64_t* value) {
  if (value == nullptr) return Fail(ACL_ERROR_INVALID_PARAM, "value is null");
  if (Status status = CheckSysParam(option); !status.ok()) return status;
  Process& process = TheProcess();
  const std::lock_guard lock(process.mutex);
  if (!HasCurrentDevice(process)) return NoCurrentDevice();
  const auto found = process.context_params.find(option);
  if (found == process.context_params.end()) {
    return Fail(ACL_ERROR_RT_SYSPARAMOPT_NOT_SET, "option ", option, " was never set in this context");
  }
  *value = found->second;
  return {};
}

Status SetProcessParam(aclSysParamOpt option, int64_t value) {
  if (Status status = CheckSysParam(option); !status.ok()) return status;
  Process& process = TheProcess();
  const std::lock_guard lock(process.mutex);
  process.process_params[option] = value;
  return {};
}

Status GetProcessParam(aclSysParamOpt option, int64_t* value) {
  if (value == nullptr) return Fail(ACL_ERROR_INVALID_PARAM, "value is null");
  if (Status status = CheckSysParam(option); !status.ok()) return status;
  Process& process = TheProcess();
  const std::lock_guard lock(process.mutex);
  const auto found = process.process_params.find(option);
  *value = found != process.process_params.end() ? found->second : 0;
  return {};
}

Status GetRunMode(aclrtRunMode* mode) {
  if (mode == nullptr) return Fail(ACL_ERROR_INVALID_PARAM, "runMode is null");
  *mode = TheHardware().RunMode();
  return {};
}

Status GetVersion(const char* package, char* version) {
  if (package == nullptr || version == nullptr) return Fail(ACL_ERROR_INVALID_PARAM, "pkgName or versionStr is null");
  std::memcpy(version, kVersion, sizeof(kVersion));
  return {};
}

const char* SocName() {
  Process& process = TheProcess();
  const std::lock_guard lock(process.mutex);
  return process.soc != nullptr ? process.soc->name : nullptr;
}

}  // namespace

// CANN's releases differ in whose value they take, the context's or the process's; setting the context's sets both.
DeviceState SampleDevice() {
  Process& process = TheProcess();
  const std::lock_guard lock(process.mutex);
  if (!HasCurrentDevice(process)) return {};
  const auto found = process.process_params.find(ACL_OPT_DETERMINISTIC);
  return {process.soc->product, found != process.process_params.end() && found->second != 0};
}

Status RequireCurrentDevice() {
  Process& process = TheProcess();
  const std::lock_guard lock(process.mutex);
  return HasCurrentDevice(process) ? Status{} : NoCurrentDevice();
}

}  // namespace poolgrad::host

using namespace poolgrad::host;

aclError aclInit(const char* /*configPath*/) { return Boundary(__func__, {}, Init); }

aclError aclFinalize() { return Boundary(__func__, {}, Finalize); }

aclError aclrtGetDeviceCount(uint32_t* count) {
  return Boundary(__func__, {Out("count", count)}, [&]() -> Status {
    if (count == nullptr) return Fail(ACL_ERROR_INVALID_PARAM, "count is null");
    *count = kDeviceCount;
    return {};
  });
}

const char* aclrtGetSocName() {
  const char* name = nullptr;
  Boundary(__func__, {}, [&]() -> Status {
    name = SocName();
    return {};
  });
  return name;
}

aclError aclrtSetDevice(int32_t deviceId) {
  return Boundary(__func__, {In("deviceId", deviceId)}, [&] { return SetDevice(deviceId); });
}

aclError aclrtResetDevice(int32_t deviceId) {
  return Boundary(__func__, {In("deviceId", deviceId)}, [&] { return ResetDevice(deviceId); });
}

aclError aclrtGetDevice(int32_t* deviceId) {
  return Boundary(__func__, {Out("deviceId", deviceId)}, [&] { return GetDevice(deviceId); });
}

aclError aclrtGetRunMode(aclrtRunMode* runMode) {
  return Boundary(__func__, {Out("runMode", runMode)}, [&] { return GetRunMode(runMode); });
}

aclError aclsysGetVersionStr(char* pkgName, char* versionStr) {
  return Boundary(__func__, {}, [&] { return GetVersion(pkgName, versionStr); });
}

aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
  return Boundary(__func__, {In("opt", opt), In("value", value)}, [&] { return SetContextParam(opt, value); });
}

aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t* value) {
  return Boundary(__func__, {In("opt", opt), Out("value", value)}, [&] { return GetContextParam(opt, value); });
}

aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
  return Boundary(__func__, {In("opt", opt), In("value", value)}, [&] { return SetProcessParam(opt, value); });
}

aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t* value) {
  return Boundary(__func__, {In("opt", opt), Out("value", value)}, [&] { return GetProcessParam(opt, value); });
}
