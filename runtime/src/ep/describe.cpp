#include "ep/describe.h"

#include <stdexcept>

#include "ep/backend_choice.h"
#include "ep/json.h"
#include "ep/ort_context.h"
#include "ep/routes.h"

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

std::string ToJson(const aclnn::FoundPackage& package) {
  return Object({{"name", String(package.name)}, {"version", String(package.version)}});
}

std::string ToJson(const aclnn::FoundOperator& function) {
  return Object({{"name", String(function.name)}, {"library", StringOrNull(function.library)}});
}

// A dialect operator: the functions that run it on the backend's product, and those of them that no library has.
std::string ToJson(const DialectOp& op, const Backend& backend) {
  std::vector<std::string> names;
  std::vector<std::string> missing;
  for (const aclnn::Entry entry : EntriesOf(op, backend.product())) {
    const aclnn::Function& function = FunctionOf(backend.api(), op, entry);
    names.push_back(String(function.phase_2));
    if (!function.found()) missing.push_back(String(function.phase_2));
  }
  return Object({{"name", String(op.name)}, {"functions", Array(names)}, {"missing", Array(missing)}});
}

// The backend, or null with the cause in `problem`.
const Backend* TryOpen(BackendKind kind, aclnn::Discovery& found, std::string& problem) {
  try {
    aclnn::LoadApiOf(kind, found);
    const Backend& backend = Backend::Open(kind);
    if (backend.product() == aclnn::Product::kUnsupported) {
      problem = backend.soc_name() + " has no max-pool gradient operators";
    }
    return &backend;
  } catch (const std::runtime_error& error) {
    problem = error.what();
    return nullptr;
  }
}

std::string DescribeBackend(BackendKind kind) {
  aclnn::Discovery found;
  std::string problem;
  const Backend* backend = TryOpen(kind, found, problem);
  const auto row = [](const auto& value) { return ToJson(value); };
  const auto name = [](const std::string& text) { return String(text); };
  const auto op = [&](const DialectOp& value) { return ToJson(value, *backend); };
  return Object({{"backend", String(NameOf(kind))},
                 {"problem", StringOrNull(problem)},
                 {"libraries", ArrayOf(found.libraries, row)},
                 {"packages", ArrayOf(found.packages, row)},
                 {"missing_symbols", ArrayOf(found.missing_symbols, name)},
                 {"functions", ArrayOf(found.operators, row)},
                 {"devices", backend == nullptr ? "null" : std::to_string(backend->device_count())},
                 {"soc", backend == nullptr ? "null" : StringOrNull(backend->soc_name())},
                 {"product", backend == nullptr ? "null" : String(NameOf(backend->product()))},
                 {"operators", backend == nullptr ? "[]" : ArrayOf(kDialectOps, op)}});
}

}  // namespace

std::string Describe(const std::string& request) {
  for (const BackendKind kind : {BackendKind::kHost, BackendKind::kCann}) {
    if (request == NameOf(kind)) return DescribeBackend(kind);
  }
  Require(request == "auto", [&] { return "'" + request + "' is not auto, cann or host"; });
  const BackendChoice choice = ChooseBackend(request);
  return Object({{"backend", String(NameOf(choice.backend.kind()))}, {"reason", String(choice.reason)}});
}

}  // namespace poolgrad::ep
