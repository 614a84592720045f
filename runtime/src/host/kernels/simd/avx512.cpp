// SPDX-License-Identifier: Apache-2.0

#define POOLGRAD_LANES 16
#include "host/kernels/simd/body.h"
#include "host/kernels/simd/tables.h"

namespace poolgrad::host::simd {

const Operations kAvx512 = kOperations;

}  // namespace poolgrad::host::simd
