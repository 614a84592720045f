// SPDX-License-Identifier: Apache-2.0

#include "ep/operation.h"

#include <cstring>
#include <utility>

#include "ep/node.h"
#include "ep/pooling.h"
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
    const std::vector<Argument> inputs = InputsOf(ort_, info, op_.inputs.size());
    const std::optional<std::size_t> x = PositionOf(op_.inputs, Part::kX);
    if (x && inputs[*x].shape.rank == 0) return;  // without the rank, the function that runs the node is not known
    CheckNode(op_, attributes_, placement_->backend(), placement_->deterministic(), inputs,
              OutputsOf(ort_, info, op_.outputs.size()));
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
  RunFunction(route, attributes_.window,
              {{"x", Role::kSelf, x}, {"y", Role::kOut, y}, {"argmax", Role::kIndices, argmax}}, context);
}

// Where the operator has no x, the function reads the sizes of y for it.
void Operation::RunBackward(ort::OrtKernelContext* context) {
  const std::optional<Tensor> x = InputOf(context, Part::kX);
  const std::optional<Tensor> argmax = InputOf(context, Part::kArgmax);
  const Tensor grad = *InputOf(context, Part::kGrad);
  const Argument x_argument = x ? x->argument : Argument{grad.argument.type, ShapeOfX(context, grad.argument.shape)};
  const Route& route = CheckBackward(op_, attributes_, placement_->backend().product(),
                                     {x_argument, grad.argument, argmax ? argmax->argument : Argument{}});
  const Tensor y = Output(ort_, context, 0, x_argument.shape, x_argument.type);
  if (y.argument.shape.IsEmpty()) return;
  // aclnn does not write the output if grad is empty.
  if (grad.argument.shape.IsEmpty()) return placement_->Clear(ViewOf(y, Shape::kMaxRank), StreamOf(context));
  const NamedTensor self{x ? "x" : "y", Role::kSelf, x ? *x : y};
  const NamedTensor grad_output{"grad", Role::kGradOutput, grad};
  const NamedTensor grad_input{"y", Role::kGradInput, y};
  if (argmax) {
    const NamedTensor indices{"argmax", Role::kIndices, *argmax};
    return RunFunction(route, attributes_.window, {self, grad_output, indices, grad_input}, context);
  }
  const aclnn::Window window =
      AverageWindowFor(route.entry, attributes_.window, x_argument.type, x_argument.shape, grad.argument.shape);
  RunFunction(route, window, {self, grad_output, grad_input}, context);
}

std::optional<Tensor> Operation::InputOf(ort::OrtKernelContext* context, Part part) const {
  const std::optional<std::size_t> position = PositionOf(op_.inputs, part);
  return position ? std::optional(Input(ort_, context, *position)) : std::nullopt;
}

Shape Operation::ShapeOfX(ort::OrtKernelContext* context, const Shape& grad) const {
  const std::optional<Tensor> sizes = InputOf(context, Part::kSizes);
  return sizes ? ReadShape(*sizes, grad.rank) : *attributes_.x_shape;
}

void Operation::RunFunction(const Route& route, const aclnn::Window& window, std::initializer_list<NamedTensor> tensors,
                            const ort::OrtKernelContext* context) {
  if (placement_->is_on_device()) RequireAligned(tensors);
  const aclnn::Function& function = placement_->backend().api().function(route.entry);
  placement_->Run(CallOf(function, window, tensors), executors_, trusts_indices_, StreamOf(context));
}

aclrtStream Operation::StreamOf(const ort::OrtKernelContext* context) const {
  return placement_->is_on_device() ? GivenStream(ort_.api, context) : nullptr;
}

}  // namespace poolgrad::ep
