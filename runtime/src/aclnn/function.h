// SPDX-License-Identifier: Apache-2.0

// The functions of aclnn that the provider calls, as a table: what each takes, and how its phase 1 is called.
#ifndef POOLGRAD_ACLNN_FUNCTION_H_
#define POOLGRAD_ACLNN_FUNCTION_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "abi/acl.h"
#include "abi/aclnn_table.h"

namespace poolgrad::aclnn {

using Axes = std::array<std::int64_t, 3>;  // values along D, H and W; a 2-D function takes the last two

// The pooling window, in elements. Of these an adaptive pool has only the output size, its gradient nothing. An average
// pool has no dilation.
struct Window {
  Axes kernel{1, 1, 1};
  Axes stride{1, 1, 1};
  Axes padding{0, 0, 0};
  Axes dilation{1, 1, 1};
  bool ceil_mode = false;
  Axes output_size{};
  bool count_include_pad = false;     // of an average pool
  std::int64_t divisor_override = 0;  // the same; 0: each window has its own divisor
};

// What a tensor is in a pool or its gradient, by aclnn's names. The planes of self and grad_input have one size, those
// of the others another.
enum class Role { kSelf, kOut, kIndices, kGradOutput, kGradInput };

enum class Use {
  kRead,
  kSizes,  // its sizes are read, its elements are not
  kWritten,
};

struct Operand {
  Role role;
  Use use;
};

constexpr std::size_t kMaxOperands = 4;
constexpr std::size_t kMaxLists = 4;

struct Arguments;

// A function: phase 1 checks a call and creates an executor, phase 2 runs the executor on a stream.
struct Function {
  const char* phase_1;  // names of the two functions
  const char* phase_2;
  std::size_t axes;                             // the length of its lists; its tensors have N and C before these
  std::initializer_list<Operand> operands;      // its tensors, in the order of its arguments
  std::initializer_list<Axes Window::*> lists;  // its lists, likewise
  aclDataType index_type;                       // a type of indices that it takes on every product, if it has indices

  // Calls `get_workspace_size` by the signature of this function.
  int (*call_phase_1)(void* get_workspace_size, const Arguments& arguments, const Window& window,
                      std::uint64_t* workspace_size, aclOpExecutor** executor);

  // Resolved at run time; null if no library has both.
  void* get_workspace_size = nullptr;
  decltype(&aclnnMaxPool3dWithArgmax) execute = nullptr;

  bool found() const { return execute != nullptr; }
  std::size_t rank() const { return 2 + axes; }
};

// The rows are those of abi/aclnn_table.h.
#define POOLGRAD_ENTRY(name, ...) k##name,
#define POOLGRAD_ONE(...) +1
enum class Entry { POOLGRAD_ACLNN_FUNCTIONS(POOLGRAD_ENTRY) };  // the number of a row
constexpr std::size_t kFunctionCount = 0 POOLGRAD_ACLNN_FUNCTIONS(POOLGRAD_ONE);
#undef POOLGRAD_ENTRY
#undef POOLGRAD_ONE

// The rows, not resolved.
extern const std::array<Function, kFunctionCount> kFunctions;

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_FUNCTION_H_
