// SPDX-License-Identifier: Apache-2.0

// Runtime functions that the CANN provider calls and the host library lacks.

#include "cann.h"
#include "cpu_model.h"
#include "element_types.h"

aclError aclrtCreateEvent(aclrtEvent* event) { return aclrtCreateEventWithFlag(event, ACL_EVENT_SYNC); }

size_t aclDataTypeSize(aclDataType type) { return stand_in::ElementSize(stand_in::OnnxType(type)); }
