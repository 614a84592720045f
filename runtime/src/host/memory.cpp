// SPDX-License-Identifier: Apache-2.0

// The functions that allocate, copy and fill memory.

#include <unistd.h>

#include <cstring>

#include "host/boundary.h"
#include "host/device.h"
#include "host/hardware.h"

namespace poolgrad::host {
namespace {

Status Allocate(Place place, void** memory, size_t size) {
  if (memory == nullptr) return Fail(ACL_ERROR_INVALID_PARAM, "the address to write the pointer to is null");
  if (size == 0) return Fail(ACL_ERROR_INVALID_PARAM, "size is 0; allocate nothing for an empty buffer");
  if (Status status = RequireCurrentDevice(); !status.ok()) return status;
  return TheHardware().Allocate(place, size, memory);
}

Status Release(Place place, void* memory) {
  if (memory == nullptr) return Fail(ACL_ERROR_INVALID_PARAM, "the pointer is null");
  return TheHardware().Free(place, memory);
}

// The device's memory is that of the machine. CANN distinguishes DDR and HBM; here they are the same.
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

// CANN refuses an empty copy or fill.
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

Work CopyWork(void* destination, const void* source, size_t count, aclrtMemcpyKind kind) {
  const bool to_host = kind == ACL_MEMCPY_HOST_TO_HOST || kind == ACL_MEMCPY_DEVICE_TO_HOST;
  const bool from_host = kind == ACL_MEMCPY_HOST_TO_HOST || kind == ACL_MEMCPY_HOST_TO_DEVICE;
  const Use dst{"dst", destination, count, to_host ? Place::kHost : Place::kDevice, true};
  const Use src{"src", const_cast<void*>(source), count, from_host ? Place::kHost : Place::kDevice, false};
  return {{dst, src}, [count](const Addresses& at) -> Status {
            std::memmove(at[0], at[1], count);
            return {};
          }};
}

Work FillWork(void* memory, int32_t value, size_t count) {
  return {{{"devPtr", memory, count, Place::kDevice, true}}, [=](const Addresses& at) -> Status {
            std::memset(at[0], value, count);
            return {};
          }};
}

}  // namespace
}  // namespace poolgrad::host

using namespace poolgrad::host;

aclError aclrtMalloc(void** devPtr, size_t size, aclrtMemMallocPolicy policy) {
  return Boundary(__func__, {In("size", size), In("policy", policy), Out("devPtr", devPtr)},
                  [&] { return Allocate(Place::kDevice, devPtr, size); });
}

aclError aclrtFree(void* devPtr) {
  return Boundary(__func__, {In("devPtr", devPtr)}, [&] { return Release(Place::kDevice, devPtr); });
}

aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t* free, size_t* total) {
  return Boundary(__func__, {In("attr", attr), Out("free", free), Out("total", total)},
                  [&] { return GetMemInfo(attr, free, total); });
}

aclError aclrtMallocHost(void** hostPtr, size_t size) {
  return Boundary(__func__, {In("size", size), Out("hostPtr", hostPtr)},
                  [&] { return Allocate(Place::kHost, hostPtr, size); });
}

aclError aclrtFreeHost(void* hostPtr) {
  return Boundary(__func__, {In("hostPtr", hostPtr)}, [&] { return Release(Place::kHost, hostPtr); });
}

aclError aclrtMemcpy(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind) {
  return Boundary(__func__,
                  {In("dst", dst), In("destMax", destMax), In("src", src), In("count", count), In("kind", kind)}, [&] {
                    Status status = CheckCopy(dst, destMax, src, count, kind);
                    return status.ok() ? TheHardware().RunNow(CopyWork(dst, src, count, kind)) : status;
                  });
}

aclError aclrtMemcpyAsync(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind,
                          aclrtStream stream) {
  const auto body = [&] {
    if (kind == ACL_MEMCPY_HOST_TO_HOST) {
      return Fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "streams do not copy from host to host");
    }
    Status status = CheckCopy(dst, destMax, src, count, kind);
    return status.ok() ? TheHardware().Submit(stream, CopyWork(dst, src, count, kind)) : status;
  };
  return Boundary(__func__,
                  {In("dst", dst), In("destMax", destMax), In("src", src), In("count", count), In("kind", kind),
                   In("stream", stream)},
                  body);
}

aclError aclrtMemset(void* devPtr, size_t maxCount, int32_t value, size_t count) {
  return Boundary(__func__, {In("devPtr", devPtr), In("maxCount", maxCount), In("value", value), In("count", count)},
                  [&] {
                    Status status = CheckFill(devPtr, maxCount, count);
                    return status.ok() ? TheHardware().RunNow(FillWork(devPtr, value, count)) : status;
                  });
}

aclError aclrtMemsetAsync(void* devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream) {
  return Boundary(
      __func__,
      {In("devPtr", devPtr), In("maxCount", maxCount), In("value", value), In("count", count), In("stream", stream)},
      [&] {
        Status status = CheckFill(devPtr, maxCount, count);
        return status.ok() ? TheHardware().Submit(stream, FillWork(devPtr, value, count)) : status;
      });
}
