// SPDX-License-Identifier: Apache-2.0

#include "aclnn/probe.h"

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "aclnn/backend.h"
#include "aclnn/cached_executor.h"
#include "aclnn/device_scope.h"
#include "aclnn/failure.h"

namespace poolgrad::aclnn {
namespace {

// Two overlapping windows of two elements along W. The output size does not divide the input size, so that an adaptive
// function cannot be replaced by a plain pool. The tensors have no data.
constexpr std::int64_t kWidth = 3;
constexpr std::int64_t kPooledWidth = 2;

TensorView SmallestView(const Function& function, Role role, aclDataType type) {
  const bool is_pooled = role != Role::kSelf && role != Role::kGradInput;
  TensorView view{role == Role::kIndices ? function.index_type : type, {}, function.rank(), nullptr};
  std::fill_n(view.dims.begin(), view.rank, 1);
  view.dims[view.rank - 1] = is_pooled ? kPooledWidth : kWidth;
  return view;
}

Call SmallestCall(const Function& function, aclDataType type) {
  Call call{function, {}, {}};
  call.window.kernel = {1, 1, kWidth - kPooledWidth + 1};
  call.window.output_size = {1, 1, kPooledWidth};
  std::transform(function.operands.begin(), function.operands.end(), call.operands.begin(),
                 [&](const Operand& operand) { return SmallestView(function, operand.role, type); });
  return call;
}

// As RefusalOf, but nullopt if a failure of another kind left the question open.
std::optional<std::string> Probe(const Backend& backend, const Function& function, aclDataType type,
                                 bool deterministic) {
  try {
    const DeviceScope scope(backend);
    const CachedExecutor executor(backend, SmallestCall(function, type), {deterministic, /*repeatable=*/false});
    return "";
  } catch (const CallError& error) {
    return error.code() == ACLNN_ERR_PARAM_INVALID ? std::optional<std::string>(error.what()) : std::nullopt;
  } catch (const std::runtime_error&) {
    return std::nullopt;
  }
}

}  // namespace

std::string Probes::RefusalOf(const Backend& backend, const Function& function, aclDataType type, bool deterministic) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (const auto known = refusals_.find({&function, type}); known != refusals_.end()) return known->second;
  const std::optional<std::string> refusal = Probe(backend, function, type, deterministic);
  if (refusal.has_value()) refusals_.emplace(std::pair(&function, type), *refusal);
  return refusal.value_or("");
}

}  // namespace poolgrad::aclnn
