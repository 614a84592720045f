// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/copy_planes.h"

#include "host/kernels/plane_access.h"

namespace poolgrad::host {
namespace {

template <typename Bits>
Status CopyPlanes(const ScatterAdd& work) {
  PlaneReader<Bits> grads(work.grad_output);
  for (int64_t plane = 0; plane < work.grad_input.count(); ++plane) {
    const Bits* next = grads.Read(plane);
    Bits* data = PlaneData<Bits>(work.grad_input, plane);
    ForOffsets(work.grad_input, [&](int64_t offset) { data[offset] = *next++; });
  }
  return {};
}

}  // namespace

Status CopyFloatPlanes(const ScatterAdd& work) { return CopyPlanes<uint32_t>(work); }
Status CopyHalfPlanes(const ScatterAdd& work) { return CopyPlanes<uint16_t>(work); }

}  // namespace poolgrad::host
