// SPDX-License-Identifier: Apache-2.0

// The tables of operations.
#ifndef POOLGRAD_HOST_KERNELS_SIMD_TABLES_H_
#define POOLGRAD_HOST_KERNELS_SIMD_TABLES_H_

#include "host/kernels/simd/operations.h"

namespace poolgrad::host::simd {

extern const Operations kScalar;    // as kPortable, without rows: the reference for the others
extern const Operations kPortable;  // for every processor
extern const Operations kAvx2, kAvx512;

}  // namespace poolgrad::host::simd

#endif  // POOLGRAD_HOST_KERNELS_SIMD_TABLES_H_
