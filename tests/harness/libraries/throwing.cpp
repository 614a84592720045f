// SPDX-License-Identifier: Apache-2.0

// Functions for aclnnHostCall that throw what no library should.
#include <cstdint>
#include <new>
#include <stdexcept>

extern "C" {

int32_t ThrowBadAlloc(void*, const char**) { throw std::bad_alloc(); }

int32_t ThrowError(void*, const char**) { throw std::runtime_error("the cause"); }

int32_t ThrowNumber(void*, const char**) { throw 7; }

}  // extern "C"
