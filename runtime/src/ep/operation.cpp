// SPDX-License-Identifier: Apache-2.0

#include "ep/operation.h"

#include <cstring>
#include <utility>

#include "ep/node.h"
#include "ep/shared_work.h"

namespace poolgrad::ep {
namespace {

using aclnn::Role;

std::string NodeName(const OrtContext& ort, const ort::OrtKernelInfo* info) {
  std::size_t size = 0;
  Check(ort.api, ort.api.KernelInfo_GetNodeName(info, nullptr, &size));
  std::string name(size, '\0');
  Check(ort.api, ort.api.KernelInfo_GetNodeName(info, name.data(), &size));
  name.resize(std::strlen(name.c_str()));  // size counts the terminator
  return name;
}

// Returns what `body` returns. Prepends the node's label to the message of an exception that it throws.
template <typename Body>
auto Labelled(const std::string& label, Body&& body) {
  try {
    return body();
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(label + ": " + error.what());
  } catch (const std::exception& error) {
    throw Error(ort::ORT_FAIL, label + ": " + error.what());
  }
}

}  // namespace

Operation::Operation(const OrtContext& ort, std::shared_ptr<Placement> placement, const DialectOp& op,
                     const ort::OrtKernelInfo* info, const IndexTrust& trust)
    : ort_(ort),
      placement_(std::move(placement)),
      op_(op),
      label_(Label(op.name, NodeName(ort, info))),
      attributes_(Labelled(label_, [&] { return ReadAttributes(op, KernelAttributes(ort, info)); })),
      trusts_indices_(trust.Covers(NodeName(ort, info))),
      executors_(placement_->backend(), placement_->deterministic()) {}

void Operation::CheckArguments(const ort::OrtKernelInfo* info) const {
  Labelled(label_, [&] {
    const std::vector<Argument> inputs = InputsOf(ort_, info, InputCount(op_));
    if (inputs[0].shape.rank == 0) return;  // without the rank, the function that will run the node is not known
    CheckNode(op_, attributes_, placement_->backend(), placement_->deterministic(), inputs,
              OutputsOf(ort_, info, OutputCount(op_)));
  });
}

ort::OrtStatus* Operation::Run(ort::OrtKernelContext* context) noexcept {
  return Guard(ort_.api, [&] {
    Labelled(label_, [&] {
      const SharedWork shared(ort_, placement_->backend().api(), context);
      if (op_.direction == Direction::kForward) {
        RunForward(context);
      } else {
        RunBackward(context);
      }
    });
  });
}

void Operation::RunForward(ort::OrtKernelContext* context) {
  const Tensor x = Input(ort_, context, 0);
  const Route& route = CheckForward(op_, attributes_, placement_->backend().product(), x.argument);
  const Shape pooled = PooledShape(op_, attributes_, x.argument.shape);
  const Tensor y = Output(ort_, context, 0, pooled, x.argument.type);
  const Tensor argmax = Output(ort_, context, 1, pooled, *attributes_.argmax_type);
  if (pooled.IsEmpty()) return;
  RunFunction(route, {{"x", Role::kSelf, x}, {"y", Role::kOut, y}, {"argmax", Role::kIndices, argmax}}, context);
}

void Operation::RunBackward(ort::OrtKernelContext* context) {
  const Tensor x = Input(ort_, context, 0);
  const Tensor grad = Input(ort_, context, 1);
  const Tensor argmax = Input(ort_, context, 2);
  const Route& route =
      CheckBackward(op_, attributes_, placement_->backend().product(), {x.argument, grad.argument, argmax.argument});
  const Tensor y = Output(ort_, context, 0, x.argument.shape, x.argument.type);
  if (y.argument.shape.IsEmpty()) return;
  // aclnn does not write the output if grad is empty.
  if (grad.argument.shape.IsEmpty()) return placement_->Clear(ViewOf(y, Shape::kMaxRank), StreamOf(context));
  RunFunction(route,
              {{"x", Role::kSelf, x},
               {"grad", Role::kGradOutput, grad},
               {"argmax", Role::kIndices, argmax},
               {"y", Role::kGradInput, y}},
              context);
}

void Operation::RunFunction(const Route& route, std::initializer_list<NamedTensor> tensors,
                            const ort::OrtKernelContext* context) {
  if (placement_->is_on_device()) RequireAligned(tensors);
  const aclnn::Function& function = placement_->backend().api().function(route.entry);
  placement_->Run(CallOf(function, attributes_.window, tensors), executors_, trusts_indices_, StreamOf(context));
}

aclrtStream Operation::StreamOf(const ort::OrtKernelContext* context) const {
  return placement_->is_on_device() ? GivenStream(ort_.api, context) : nullptr;
}

}  // namespace poolgrad::ep
