// SPDX-License-Identifier: Apache-2.0

// Kernel definitions, by which onnxruntime finds the kernel of a node.
#ifndef POOLGRAD_EP_KERNEL_DEFINITION_H_
#define POOLGRAD_EP_KERNEL_DEFINITION_H_

#include <cstddef>

#include "ep/dialect.h"
#include "ep/memcpy_kernel.h"
#include "ep/ort_context.h"

namespace poolgrad::ep {

using KernelDefinition = OrtHandle<ort::OrtKernelDef>;

// All inputs and outputs are in device memory if `is_on_device`, else in host memory; the sizes of a tensor are always
// in host memory. Throws Error.
KernelDefinition DefineOperation(const EpContext& ort, const DialectOp& op, bool is_on_device);

// Outputs are the memory of the inputs at their positions. All are in device memory if `is_on_device`.
KernelDefinition DefineUnsqueezeScalars(const EpContext& ort, bool is_on_device);

KernelDefinition DefineMemcpy(const EpContext& ort, MemcpyDirection direction);

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_KERNEL_DEFINITION_H_
