// SPDX-License-Identifier: Apache-2.0

#include "aclnn/probe.h"

#include <array>
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
constexpr std::array<std::int64_t, kMaxRank> kSelf{1, 1, 1, 1, 3};
constexpr std::array<std::int64_t, kMaxRank> kPooled{1, 1, 1, 1, 2};
constexpr Axes kOutputSize{1, 1, 2};

Window SmallestWindow() {
  Window window;
  window.kernel = {1, 1, 2};
  return window;
}

TensorView ViewOf(const std::array<std::int64_t, kMaxRank>& dims, aclDataType type, Entry entry) {
  const std::size_t rank = AxesOf(entry) + 2;
  return {type, dims.data() + dims.size() - rank, rank, nullptr};
}

template <typename Call>
Call SmallestCall(Entry entry);

template <>
ForwardCall SmallestCall(Entry entry) {
  // The index type that the function accepts on every product.
  const aclDataType indices = entry == Entry::kAdaptive2d ? ACL_INT64 : ACL_INT32;
  return {entry,
          ViewOf(kSelf, ACL_FLOAT, entry),
          ViewOf(kPooled, ACL_FLOAT, entry),
          ViewOf(kPooled, indices, entry),
          SmallestWindow(),
          kOutputSize};
}

template <>
BackwardCall SmallestCall(Entry entry) {
  return {entry,
          ViewOf(kPooled, ACL_FLOAT, entry),
          ViewOf(kSelf, ACL_FLOAT, entry),
          ViewOf(kPooled, ACL_INT32, entry),
          ViewOf(kSelf, ACL_FLOAT, entry),
          SmallestWindow()};
}

// As RefusalOf, but nullopt if a failure of another kind left the question open.
template <typename Call>
std::optional<std::string> Probe(const Backend& backend, const Call& call, bool deterministic) {
  try {
    const DeviceScope scope(backend);
    const CachedExecutor executor(backend, call, {deterministic, /*repeatable=*/false});
    return "";
  } catch (const CallError& error) {
    return error.code() == ACLNN_ERR_PARAM_INVALID ? std::optional<std::string>(error.what()) : std::nullopt;
  } catch (const std::runtime_error&) {
    return std::nullopt;
  }
}

}  // namespace

template <typename Call>
std::string Probes::RefusalOf(const Backend& backend, Entry entry, bool deterministic) {
  const Call call = SmallestCall<Call>(entry);
  const Function* const function = &FunctionOf(backend.api(), call);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (const auto known = refusals_.find(function); known != refusals_.end()) return known->second;
  const std::optional<std::string> refusal = Probe(backend, call, deterministic);
  if (refusal.has_value()) refusals_.emplace(function, *refusal);
  return refusal.value_or("");
}

template std::string Probes::RefusalOf<ForwardCall>(const Backend& backend, Entry entry, bool deterministic);
template std::string Probes::RefusalOf<BackwardCall>(const Backend& backend, Entry entry, bool deterministic);

}  // namespace poolgrad::aclnn
