// SPDX-License-Identifier: Apache-2.0

#include "host/device.h"

#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <string_view>
#include <vector>

#include "host/boundary.h"
#include "host/executor.h"
#include "host/hardware.h"
#include "host/mode.h"
#include "host/read_number.h"
#include "host/settings.h"
#include "host/tensor.h"
#include "host/violations.h"

namespace poolgrad::host {
namespace {

constexpr uint32_t kMostDevices = 64;
constexpr char kVersion[] = "8.5.0.host";  // of every package: the CANN release whose ABI this is

using SysParams = std::map<aclSysParamOpt, int64_t>;

// The context of a device, from its first aclrtSetDevice to its last aclrtResetDevice.
struct Context {
  const int32_t device;
  bool ended = false;
  SysParams params = {};
};

struct Device {
  uint64_t references = 0;     // calls of aclrtSetDevice without a matching aclrtResetDevice
  Context* context = nullptr;  // null without references
};

// State of the process.
struct Process {
  std::mutex mutex;
  const Soc* soc = nullptr;  // set between aclInit and aclFinalize
  std::vector<Device> devices = std::vector<Device>(1);
  std::deque<Context> contexts;  // also those that ended: threads may still point to them
  SysParams process_params;

  void EndContext(int32_t device) {
    TheHardware().EndContext(device);
    Device& ending = devices[static_cast<size_t>(device)];
    if (ending.context != nullptr) ending.context->ended = true;
    ending = {};
  }
};

Process& TheProcess() {
  static auto* const process = new Process;  // never destroyed: threads may use contexts at exit
  return *process;
}

// The current context of the thread, which may have ended; null before the first.
thread_local Context* current_context = nullptr;

bool HasCurrentDevice() { return current_context != nullptr && !current_context->ended; }

Status NoCurrentDevice() {
  return Fail(ACL_ERROR_RT_CONTEXT_NULL,
              "the calling thread has no current device; call aclrtSetDevice on this thread first");
}

Status CheckDeviceId(const Process& process, int32_t device) {
  if (device >= 0 && static_cast<size_t>(device) < process.devices.size()) return {};
  return Fail(ACL_ERROR_RT_INVALID_DEVICEID, "device ", device, " does not exist; there are ", process.devices.size(),
              ", counted from 0");
}

// In lenient mode there is one device: all device memory is memory of the process.
Status ChosenDevices(std::vector<Device>& devices) {
  const char* setting = std::getenv("ACLNN_HOST_DEVICES");
  const std::string_view text = setting != nullptr ? setting : "";
  uint32_t count = 1;
  if (!text.empty() && (!ReadNumber(text, count) || count < 1 || count > kMostDevices)) {
    return Fail(ACL_ERROR_INVALID_PARAM, "ACLNN_HOST_DEVICES is \"", text, "\"; it takes 1 to ", kMostDevices);
  }
  devices.assign(IsStrict() ? count : 1, {});
  return {};
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
  // Without a message, as in CANN, which counts the calls.
  if (process.soc != nullptr) return {ACL_ERROR_REPEAT_INITIALIZE, ""};
  if (Status status = EnvironmentStatus(); !status.ok()) return status;
  if (Status status = ReadMode(); !status.ok()) return status;
  if (Status status = ChosenDevices(process.devices); !status.ok()) return status;
  return ChosenSoc(process.soc);
}

Status Finalize() {
  Process& process = TheProcess();
  const std::lock_guard lock(process.mutex);
  if (process.soc == nullptr) return Fail(ACL_ERROR_REPEAT_FINALIZE, "acl is not initialized");
  for (size_t device = 0; device < process.devices.size(); ++device) {
    process.EndContext(static_cast<int32_t>(device));
  }
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
  if (Status status = CheckDeviceId(process, device); !status.ok()) return status;
  Device& set = process.devices[static_cast<size_t>(device)];
  if (set.references++ == 0) set.context = &process.contexts.emplace_back(Context{device});
  current_context = set.context;
  return {};
}

Status ResetDevice(int32_t device) {
  Process& process = TheProcess();
  const std::lock_guard lock(process.mutex);
  if (Status status = CheckDeviceId(process, device); !status.ok()) return status;
  Device& reset = process.devices[static_cast<size_t>(device)];
  if (reset.references == 0) {
    return Fail(ACL_ERROR_RT_CONTEXT_NULL, "device ", device, " is reset more often than it was set");
  }
  if (--reset.references == 0) process.EndContext(device);
  return {};
}

Status GetDevice(int32_t* device) {
  if (device == nullptr) return Fail(ACL_ERROR_INVALID_PARAM, "deviceId is null");
  if (Status status = RequireCurrentDevice(); !status.ok()) return status;
  *device = current_context->device;
  return {};
}

Status GetCurrentContext(aclrtContext* context) {
  if (context == nullptr) return Fail(ACL_ERROR_INVALID_PARAM, "context is null");
  if (Status status = RequireCurrentDevice(); !status.ok()) return status;
  *context = current_context;
  return {};
}

Status SetCurrentContext(aclrtContext handle) {
  if (handle == nullptr) return Fail(ACL_ERROR_INVALID_PARAM, "context is null");
  Process& process = TheProcess();
  const std::lock_guard lock(process.mutex);
  for (Context& context : process.contexts) {
    if (&context != handle || context.ended) continue;
    current_context = &context;
    return {};
  }
  return Fail(ACL_ERROR_RT_CONTEXT_NULL, handle, " is no context, or one that ended");
}

Status GetDeviceCount(uint32_t* count) {
  if (count == nullptr) return Fail(ACL_ERROR_INVALID_PARAM, "count is null");
  Process& process = TheProcess();
  const std::lock_guard lock(process.mutex);
  *count = static_cast<uint32_t>(process.devices.size());
  return {};
}

// CANN has a value per context and one per process. Setting the context's value sets both.
Status SetContextParam(aclSysParamOpt option, int64_t value) {
  if (Status status = CheckSysParam(option); !status.ok()) return status;
  Process& process = TheProcess();
  const std::lock_guard lock(process.mutex);
  if (!HasCurrentDevice()) return NoCurrentDevice();
  current_context->params[option] = value;
  process.process_params[option] = value;
  return {};
}

Status GetContextParam(aclSysParamOpt option, int64_t* value) {
  if (value == nullptr) return Fail(ACL_ERROR_INVALID_PARAM, "value is null");
  if (Status status = CheckSysParam(option); !status.ok()) return status;
  Process& process = TheProcess();
  const std::lock_guard lock(process.mutex);
  if (!HasCurrentDevice()) return NoCurrentDevice();
  const auto found = current_context->params.find(option);
  if (found == current_context->params.end()) {
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

// CANN's releases read either the context's value or the process's. Setting the context's value sets both.
DeviceState SampleDevice() {
  Process& process = TheProcess();
  const std::lock_guard lock(process.mutex);
  if (!HasCurrentDevice()) return {};
  const auto found = process.process_params.find(ACL_OPT_DETERMINISTIC);
  return {process.soc->product, found != process.process_params.end() && found->second != 0};
}

int32_t CurrentDevice() { return current_context != nullptr ? current_context->device : kNoDevice; }

Status RequireCurrentDevice() {
  Process& process = TheProcess();
  const std::lock_guard lock(process.mutex);
  return HasCurrentDevice() ? Status{} : NoCurrentDevice();
}

}  // namespace poolgrad::host

using namespace poolgrad::host;

aclError aclInit(const char* /*configPath*/) { return Boundary(__func__, {}, Init); }

aclError aclFinalize() { return Boundary(__func__, {}, Finalize); }

aclError aclrtGetDeviceCount(uint32_t* count) {
  return Boundary(__func__, {Out("count", count)}, [&] { return GetDeviceCount(count); });
}

const char* aclrtGetSocName() {
  const char* name = nullptr;
  Boundary(__func__, {}, [&] { name = SocName(); });
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

aclError aclrtGetCurrentContext(aclrtContext* context) {
  return Boundary(__func__, {Out("context", context)}, [&] { return GetCurrentContext(context); });
}

aclError aclrtSetCurrentContext(aclrtContext context) {
  return Boundary(__func__, {In("context", context)}, [&] { return SetCurrentContext(context); });
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
