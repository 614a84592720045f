// SPDX-License-Identifier: Apache-2.0

#define POOLGRAD_LANES 4
#include "host/kernels/simd/body.h"
#include "host/kernels/simd/tables.h"

namespace poolgrad::host::simd {

const Operations kPortable = kOperations;
const Operations kScalar = {kOperations.lanes,
                            kOperations.widen_float16,
                            kOperations.widen_bfloat16,
                            kOperations.round_float16,
                            kOperations.round_bfloat16,
                            kOperations.round_and_clear_float16,
                            kOperations.round_and_clear_bfloat16,
                            kOperations.widen_indices,
                            kOperations.sum,
                            kOperations.average_float,
                            kOperations.average_float16,
                            kOperations.average_bfloat16,
                            nullptr,
                            nullptr,
                            nullptr};

}  // namespace poolgrad::host::simd
