// SPDX-License-Identifier: Apache-2.0

// A parser plugin of GE: tells ATC how nodes of domain npu become operators of CANN. ATC opens the library, and what is
// static in it registers a callback for each operator.

#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "attributes.h"
#include "operators.h"
#ifdef POOLGRAD_TOOLKIT_HEADERS
#include "graph/operator.h"
#include "register/register.h"
#else
#include "ge_declarations.h"
#endif

namespace poolgrad {
namespace atc {
namespace {

// ATC's own message of a failed callback has no reason, and its log is hidden.
void Report(const std::string& where, const char* what) {
  std::fprintf(stderr, "poolgrad: %s: %s\n", where.c_str(), what);
}

// Returns a text that GE keeps as an attribute of the node; empty if it has none of this name.
std::string TextOf(const ge::Operator& node, const char* name) {
  ge::AscendString text;
  if (node.GetAttr(name, text) != 0 || text.GetString() == nullptr) return "";
  return text.GetString();
}

void Check(ge::graphStatus status, const std::string& what) {
  if (status != 0) throw std::runtime_error("GE did not " + what + ", status " + std::to_string(status));
}

void SetAttribute(const Value& value, ge::Operator& target) {
  const char* name = value.name.c_str();
  switch (value.type) {
    case Type::kInt:
      target.SetAttr(name, value.numbers.front());
      break;
    case Type::kBool:
      target.SetAttr(name, value.numbers.front() != 0);
      break;
    case Type::kInts:
      target.SetAttr(name, value.numbers);
      break;
    case Type::kString:
      target.SetAttr(name, ge::AscendString(value.text.c_str()));
      break;
    case Type::kFloat:
      break;
  }
}

void SetLayout(ge::TensorDesc& desc, Layout layout) {
  const ge::Format format = layout == Layout::kNchw ? ge::FORMAT_NCHW : ge::FORMAT_NCDHW;
  desc.SetFormat(format);
  desc.SetOriginFormat(format);
}

// GE's parser leaves every tensor at ND, which the 3-D operators do not take on every product, or take for another
// layout.
void SetLayouts(const Operator& op, ge::Operator& target) {
  if (op.layout == Layout::kNd) return;
  std::uint32_t index = 0;
  for (const std::string& name : op.inputs) {
    ge::TensorDesc desc = target.GetInputDesc(index++);
    SetLayout(desc, op.layout);
    Check(target.UpdateInputDesc(name.c_str(), desc), "set the format of input '" + name + "'");
  }
  index = 0;
  for (const std::string& name : op.outputs) {
    ge::TensorDesc desc = target.GetOutputDesc(index++);
    SetLayout(desc, op.layout);
    Check(target.UpdateOutputDesc(name.c_str(), desc), "set the format of output '" + name + "'");
  }
}

void Parse(const Operator& op, const ge::Operator& node, ge::Operator& target) {
  if (op.refused) {
    throw std::runtime_error(
        "CANN's graphs have no such operator; write the model with 'poolgrad export-atc', which "
        "replaces it by standard operators");
  }
  for (const Value& value : ReadAttributes(op, TextOf(node, "attribute"))) SetAttribute(value, target);
  SetLayouts(op, target);
}

// The callback. No exception may pass through GE.
domi::Status TryParse(const Operator& op, const ge::Operator& node, ge::Operator& target) noexcept {
  try {
    std::string where = "node";
    try {
      where += " " + Quoted(TextOf(node, "name")) + " (" + op.key + ")";
      Parse(op, node, target);
      return domi::SUCCESS;
    } catch (const std::exception& error) {
      Report(where, error.what());
    }
  } catch (...) {
    std::fputs("poolgrad: a node of domain npu: an exception without a message\n", stderr);
  }
  return domi::FAILED;
}

// Also an operator that is refused: of one that is not registered, ATC says nothing about 'poolgrad export-atc'.
void Register(const Operator& op) {
  domi::OpRegistrationData data(op.prototype);
  data.FrameworkType(domi::ONNX)
      .OriginOpType(std::vector<ge::AscendString>{op.key})
      .ParseParamsByOperatorFn(
          [&op](const ge::Operator& node, ge::Operator& target) { return TryParse(op, node, target); })
      .ImplyType(domi::ImplyType::TVM);
  domi::OpReceiver receiver(data);
}

bool RegisterAll() noexcept {
  try {
    for (const Operator& op : Operators()) Register(op);
    return true;
  } catch (const std::exception& error) {
    Report("the operators of domain npu are not registered", error.what());
  } catch (...) {
    std::fputs("poolgrad: the operators of domain npu are not registered\n", stderr);
  }
  return false;
}

const bool registered __attribute__((unused)) = RegisterAll();

}  // namespace
}  // namespace atc
}  // namespace poolgrad
