#include "ep/provider.h"

#include "ep/node.h"

namespace poolgrad::ep {

Provider::Provider(const EpContext& ort, const aclnn::Backend& backend, bool deterministic, const Logger& logger)
    : ort::OrtEp{},
      ort_(ort),
      backend_(backend),
      logger_(logger),
      registry_(ort_, std::make_shared<Device>(backend, deterministic)) {
  ort_version_supported = ort.version;
  GetName = GetNameImpl;
  GetCapability = GetCapabilityImpl;
  GetKernelRegistry = GetKernelRegistryImpl;
}

const char* Provider::GetNameImpl(const ort::OrtEp*) noexcept { return kProviderName; }

ort::OrtStatus* Provider::GetCapabilityImpl(ort::OrtEp* self, const ort::OrtGraph* graph,
                                            ort::OrtEpGraphSupportInfo* support) noexcept {
  Provider& provider = *static_cast<Provider*>(self);
  return Guard(provider.ort_.api, [&] {
    for (const ort::OrtNode* node : NodesOf(provider.ort_, graph)) provider.Consider(node, support);
  });
}

ort::OrtStatus* Provider::GetKernelRegistryImpl(ort::OrtEp* self, const ort::OrtKernelRegistry** out) noexcept {
  *out = static_cast<Provider*>(self)->registry_.get();
  return nullptr;
}

// Throws InvalidArgument if the node cannot run, as far as its arguments are known.
void Provider::CheckNode(const DialectOp& op, const Attributes& attributes, const ort::OrtNode* node) {
  if (op.direction == Direction::kBackward) {
    const std::vector<Argument> inputs = InputsOf(ort_, node, 3);
    RequireFunction(op, CheckBackward(op, attributes, backend_.product(), {inputs[0], inputs[1], inputs[2]}));
    return;
  }
  RequireFunction(op, CheckForward(op, attributes, backend_.product(), InputsOf(ort_, node, 1)[0]));
  // The body of a model decides what type onnxruntime gives argmax.
  Require(OutputsOf(ort_, node, 2)[1].type == attributes.argmax_type,
          std::string("argmax is not of the type that the attribute ") + op.index_type + " says");
}

void Provider::RequireFunction(const DialectOp& op, const Route& route) {
  const aclnn::Function& function = FunctionOf(backend_.api(), op, route.entry);
  Require(function.found(), [&] { return std::string("no library of this CANN has ") + function.phase_2; });
}

// Claims the node, or leaves it to its function body and logs why.
void Provider::Consider(const ort::OrtNode* node, ort::OrtEpGraphSupportInfo* support) {
  const ort::OrtKernelDef* kernel_def = nullptr;
  Check(ort_.api, ort_.ep_api.EpGraphSupportInfo_LookUpKernel(support, node, &kernel_def));
  if (kernel_def == nullptr) return;
  const DialectOp* op = FindDialectOp(OperatorType(ort_, node).c_str());
  try {
    const Attributes attributes = ReadAttributes(*op, NodeAttributes(ort_, node));
    CheckNode(*op, attributes, node);
  } catch (const Error& reason) {
    logger_.Info(Label(ort_, node) + " is left to its function body: " + reason.what());
    return;
  }
  Check(ort_.api, ort_.ep_api.EpGraphSupportInfo_AddSingleNode(support, node));
}

}  // namespace poolgrad::ep
