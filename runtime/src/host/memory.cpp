// Device and pinned host memory, which here are both ordinary memory.

#include <cstdlib>
#include <cstring>
#include <unistd.h>

#include "host/device.h"
#include "host/stream.h"

namespace poolgrad::host {
namespace {

constexpr size_t kAlignment = 64;  // as aclrtMalloc aligns

Status Allocate(void** memory, size_t size) {
  if (memory == nullptr) return Fail(ACL_ERROR_INVALID_PARAM, "the address to write the pointer to is null");
  if (size == 0) return Fail(ACL_ERROR_INVALID_PARAM, "size is 0; allocate nothing for an empty buffer");
  if (Status status = RequireCurrentDevice(); !status.ok()) return status;
  const size_t padded = (size + kAlignment - 1) / kAlignment * kAlignment;
  void* allocated = padded >= size ? std::aligned_alloc(kAlignment, padded) : nullptr;
  if (allocated == nullptr) return Fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "cannot allocate ", size, " bytes");
  *memory = allocated;
  return {};
}

Status Release(void* memory) {
  if (memory == nullptr) return Fail(ACL_ERROR_INVALID_PARAM, "the pointer is null");
  std::free(memory);
  return {};
}

// CANN takes no empty copy or fill.
Status CheckCount(size_t count, size_t capacity) {
  if (count > 0 && count <= capacity) return {};
  return Fail(ACL_ERROR_RT_PARAM_INVALID, "count is ", count, "; it has to be 1 to ", capacity,
              ", the size of the destination");
}

Status CheckCopy(const void* destination, size_t capacity, const void* source, size_t count, aclrtMemcpyKind kind) {
  if (destination == nullptr) return Fail(ACL_ERROR_INVALID_PARAM, "dst is null");
  if (source == nullptr) return Fail(ACL_ERROR_INVALID_PARAM, "src is null");
  if (Status status = CheckCount(count, capacity); !status.ok()) return status;
  if (kind < ACL_MEMCPY_HOST_TO_HOST || kind > ACL_MEMCPY_DEVICE_TO_DEVICE) {
    return Fail(ACL_ERROR_RT_PARAM_INVALID, "kind is ", kind, "; 0 to 3 are known");
  }
  return RequireCurrentDevice();
}

Status CheckFill(const void* memory, size_t capacity, size_t count) {
  if (memory == nullptr) return Fail(ACL_ERROR_INVALID_PARAM, "devPtr is null");
  if (Status status = CheckCount(count, capacity); !status.ok()) return status;
  return RequireCurrentDevice();
}

// The memory of the device is the machine's. CANN knows two kinds of it, DDR and HBM; here they are one.
Status GetMemInfo(aclrtMemAttr attr, size_t* free, size_t* total) {
  if (free == nullptr || total == nullptr) return Fail(ACL_ERROR_INVALID_PARAM, "free or total is null");
  if (attr != ACL_DDR_MEM && attr != ACL_HBM_MEM) {
    return Fail(ACL_ERROR_RT_PARAM_INVALID, "attr is ", attr, "; 0 and 1 are known");
  }
  if (Status status = RequireCurrentDevice(); !status.ok()) return status;
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  *free = page * static_cast<size_t>(sysconf(_SC_AVPHYS_PAGES));
  *total = page * static_cast<size_t>(sysconf(_SC_PHYS_PAGES));
  return {};
}

Task CopyTask(void* destination, const void* source, size_t count) {
  return [=]() -> Status {
    std::memmove(destination, source, count);
    return {};
  };
}

Task FillTask(void* memory, int32_t value, size_t count) {
  return [=]() -> Status {
    std::memset(memory, value, count);
    return {};
  };
}

}  // namespace
}  // namespace poolgrad::host

using namespace poolgrad::host;

aclError aclrtMalloc(void** devPtr, size_t size, aclrtMemMallocPolicy /*policy*/) {
  return Boundary(__func__, [&] { return Allocate(devPtr, size); });
}

aclError aclrtFree(void* devPtr) {
  return Boundary(__func__, [&] { return Release(devPtr); });
}

aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t* free, size_t* total) {
  return Boundary(__func__, [&] { return GetMemInfo(attr, free, total); });
}

aclError aclrtMallocHost(void** hostPtr, size_t size) {
  return Boundary(__func__, [&] { return Allocate(hostPtr, size); });
}

aclError aclrtFreeHost(void* hostPtr) {
  return Boundary(__func__, [&] { return Release(hostPtr); });
}

aclError aclrtMemcpy(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind) {
  return Boundary(__func__, [&] {
    Status status = CheckCopy(dst, destMax, src, count, kind);
    return status.ok() ? CopyTask(dst, src, count)() : status;
  });
}

aclError aclrtMemcpyAsync(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind,
                          aclrtStream stream) {
  return Boundary(__func__, [&] {
    if (kind == ACL_MEMCPY_HOST_TO_HOST) {
      return Fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "streams do not copy from host to host");
    }
    Status status = CheckCopy(dst, destMax, src, count, kind);
    return status.ok() ? Submit(stream, CopyTask(dst, src, count)) : status;
  });
}

aclError aclrtMemset(void* devPtr, size_t maxCount, int32_t value, size_t count) {
  return Boundary(__func__, [&] {
    Status status = CheckFill(devPtr, maxCount, count);
    return status.ok() ? FillTask(devPtr, value, count)() : status;
  });
}

aclError aclrtMemsetAsync(void* devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream) {
  return Boundary(__func__, [&] {
    Status status = CheckFill(devPtr, maxCount, count);
    return status.ok() ? Submit(stream, FillTask(devPtr, value, count)) : status;
  });
}
