// SPDX-License-Identifier: Apache-2.0

#include "graph.h"

#include <algorithm>

namespace ge {

AscendString::AscendString(const char* text) {
  if (text != nullptr) text_ = std::make_shared<std::string>(text);
}

const char* AscendString::GetString() const { return text_ == nullptr ? "" : text_->c_str(); }

class TensorDescImpl {
 public:
  Format format = FORMAT_ND;
  Format origin_format = FORMAT_ND;
};

TensorDesc::TensorDesc() : impl_(std::make_shared<TensorDescImpl>()) {}

TensorDesc::TensorDesc(const TensorDesc& other) : impl_(std::make_shared<TensorDescImpl>(*other.impl_)) {}

TensorDesc& TensorDesc::operator=(const TensorDesc& other) {
  *impl_ = *other.impl_;
  return *this;
}

void TensorDesc::SetFormat(Format format) { impl_->format = format; }
void TensorDesc::SetOriginFormat(Format format) { impl_->origin_format = format; }
Format TensorDesc::GetFormat() const { return impl_->format; }
Format TensorDesc::GetOriginFormat() const { return impl_->origin_format; }

Operator::Operator() : impl_(std::make_shared<OperatorImpl>()) {}

OperatorImpl& Contents(const Operator& op) { return *op.impl_; }

graphStatus Operator::GetAttr(const char* name, AscendString& value) const {
  const auto found = impl_->attributes.find(name);
  if (found == impl_->attributes.end()) return GRAPH_FAILED;
  const std::string* text = std::get_if<std::string>(&found->second);
  if (text == nullptr) return GRAPH_FAILED;
  value = AscendString(text->c_str());
  return GRAPH_SUCCESS;
}

Operator& Operator::SetAttr(const char* name, bool value) {
  impl_->attributes[name] = value;
  return *this;
}

Operator& Operator::SetAttr(const char* name, int64_t value) {
  impl_->attributes[name] = value;
  return *this;
}

Operator& Operator::SetAttr(const char* name, const AscendString& value) {
  impl_->attributes[name] = std::string(value.GetString());
  return *this;
}

Operator& Operator::SetAttr(const char* name, const std::vector<int64_t>& value) {
  impl_->attributes[name] = value;
  return *this;
}

namespace {

TensorDesc DescAt(const std::vector<NamedTensor>& tensors, uint32_t index) {
  return index < tensors.size() ? tensors[index].desc : TensorDesc();
}

graphStatus Update(std::vector<NamedTensor>& tensors, const char* name, const TensorDesc& desc) {
  const auto found =
      std::find_if(tensors.begin(), tensors.end(), [name](const NamedTensor& tensor) { return tensor.name == name; });
  if (found == tensors.end()) return GRAPH_FAILED;
  found->desc = desc;
  return GRAPH_SUCCESS;
}

}  // namespace

TensorDesc Operator::GetInputDesc(uint32_t index) const { return DescAt(impl_->inputs, index); }
TensorDesc Operator::GetOutputDesc(uint32_t index) const { return DescAt(impl_->outputs, index); }

graphStatus Operator::UpdateInputDesc(const char* name, const TensorDesc& desc) {
  return Update(impl_->inputs, name, desc);
}

graphStatus Operator::UpdateOutputDesc(const char* name, const TensorDesc& desc) {
  return Update(impl_->outputs, name, desc);
}

}  // namespace ge
