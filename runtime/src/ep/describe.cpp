// SPDX-License-Identifier: Apache-2.0

#include "ep/describe.h"

#include <stdexcept>
#include <utility>

#include "aclnn/packages.h"
#include "ep/backend_choice.h"
#include "ep/dialect_table.h"
#include "ep/json.h"
#include "ep/ort_context.h"
#include "ep/routes.h"
#include "ep/shape.h"

namespace poolgrad::ep {
namespace {

using aclnn::Backend;
using aclnn::BackendKind;
using json::Array;
using json::Object;
using json::String;
using json::StringOrNull;

template <typename Rows, typename ToJson>
std::string ArrayOf(const Rows& rows, ToJson&& to_json) {
  std::vector<std::string> values;
  for (const auto& row : rows) values.push_back(to_json(row));
  return Array(values);
}

std::string ToJson(const aclnn::FoundLibrary& library) {
  return Object({{"path", String(library.path)}, {"problem", StringOrNull(library.problem)}});
}

std::string ToJson(const aclnn::Package& package) {
  return Object({{"name", String(package.name)}, {"version", String(package.version)}});
}

std::string ToJson(const aclnn::FoundOperator& function) {
  return Object({{"name", String(function.name)}, {"library", StringOrNull(function.library)}});
}

// The element types for which the backend refuses a function, each with the reason.
std::vector<std::pair<std::string, std::string>> RefusalsOf(const Backend& backend, const aclnn::Function& function) {
  std::vector<std::pair<std::string, std::string>> refusals;
  for (const ElementType& type : kValueTypes) {
    const std::string refusal = backend.probes().RefusalOf(backend, function, type.acl, /*deterministic=*/false);
    if (!refusal.empty()) refusals.push_back({type.name, String(refusal)});
  }
  return refusals;
}

// A dialect operator: the functions that run it on the backend's product; of these, those that no library has, and
// those that the backend refuses, with the reason for each element type.
std::string ToJson(const DialectOp& op, const Backend& backend) {
  std::vector<std::string> names;
  std::vector<std::string> missing;
  std::vector<std::pair<std::string, std::string>> refused;
  for (const aclnn::Entry entry : EntriesOf(op, backend.product())) {
    const aclnn::Function& function = backend.api().function(entry);
    names.push_back(String(function.phase_2));
    if (!function.found()) {
      missing.push_back(String(function.phase_2));
    } else if (const auto refusals = RefusalsOf(backend, function); !refusals.empty()) {
      refused.push_back({function.phase_2, Object(refusals)});
    }
  }
  return Object({{"name", String(op.name)},
                 {"functions", Array(names)},
                 {"missing", Array(missing)},
                 {"refused", Object(refused)}});
}

constexpr std::size_t kMinRank = 3;  // (N, C, one spatial axis)

struct Findings {
  aclnn::Discovery found;
  std::vector<aclnn::Package> packages;
  const Backend* backend = nullptr;  // null where it cannot be opened
  std::string problem;
};

Findings Look(BackendKind kind) {
  Findings findings;
  try {
    findings.packages = InstalledPackages(aclnn::LoadApiOf(kind, findings.found));
    findings.backend = &Backend::Open(kind);
    findings.problem = ProductProblem(*findings.backend);
  } catch (const std::runtime_error& error) {
    findings.problem = error.what();
  }
  return findings;
}

std::string DescribeBackend(BackendKind kind) {
  const Findings findings = Look(kind);
  const Backend* backend = findings.backend;
  const auto row = [](const auto& value) { return ToJson(value); };
  const auto type = [](const ElementType& value) { return String(value.name); };
  const auto op = [&](const DialectOp& value) { return ToJson(value, *backend); };
  return Object({{"backend", String(NameOf(kind))},
                 {"problem", StringOrNull(findings.problem)},
                 {"libraries", ArrayOf(findings.found.libraries, row)},
                 {"packages", ArrayOf(findings.packages, row)},
                 {"missing_symbols", ArrayOf(findings.found.missing_symbols, String)},
                 {"functions", ArrayOf(findings.found.operators, row)},
                 {"devices", backend == nullptr ? "null" : std::to_string(backend->device_count())},
                 {"soc", backend == nullptr ? "null" : StringOrNull(backend->soc_name())},
                 {"product", backend == nullptr ? "null" : String(NameOf(backend->product()))},
                 {"element_types", ArrayOf(kValueTypes, type)},
                 {"operators", backend == nullptr ? "[]" : ArrayOf(kDialectOps, op)}});
}

// The routes of the operator on the backend's product, by the rank of x and the type of argmax, null if it has none.
std::vector<std::string> RoutesOf(const DialectOp& op, const Backend& backend) {
  std::vector<std::string> routes;
  for (std::size_t rank = kMinRank; rank <= Shape::kMaxRank; ++rank) {
    for (const bool is_int64 : {false, true}) {
      const Route* route = FindRoute(op, backend.product(), rank, is_int64);
      if (route == nullptr) continue;
      const bool has_argmax = route->index_types != IndexTypes::kNone;
      if (!has_argmax && is_int64) continue;
      routes.push_back(Object({{"operator", String(op.name)},
                               {"rank", std::to_string(rank)},
                               {"argmax", has_argmax ? String(is_int64 ? "int64" : "int32") : "null"},
                               {"function", String(backend.api().function(route->entry).phase_2)}}));
    }
  }
  return routes;
}

std::string DescribeRoutes(BackendKind kind) {
  std::vector<std::string> routes;
  for (const DialectOp& op : kDialectOps) {
    for (const std::string& route : RoutesOf(op, Backend::Open(kind))) routes.push_back(route);
  }
  return Array(routes);
}

}  // namespace

std::string Describe(const std::string& request) {
  for (const BackendKind kind : {BackendKind::kHost, BackendKind::kCann}) {
    if (request == NameOf(kind)) return DescribeBackend(kind);
    if (request == std::string(NameOf(kind)) + " routes") return DescribeRoutes(kind);
  }
  Require(request == "auto", [&] { return "'" + request + "' is not auto, cann or host"; });
  const BackendChoice choice = ChooseBackend(request);
  return Object({{"backend", String(NameOf(choice.backend.kind()))}, {"reason", String(choice.reason)}});
}

}  // namespace poolgrad::ep
