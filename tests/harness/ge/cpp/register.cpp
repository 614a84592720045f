// SPDX-License-Identifier: Apache-2.0

#include "register.h"

namespace domi {

namespace {

std::map<std::string, std::shared_ptr<const OpRegistrationDataImpl>>& Registry() {
  static std::map<std::string, std::shared_ptr<const OpRegistrationDataImpl>> registry;
  return registry;
}

}  // namespace

OpRegistrationData::OpRegistrationData(const char* om_type) : impl_(std::make_shared<OpRegistrationDataImpl>()) {
  impl_->om_type = om_type;
}

OpRegistrationData::~OpRegistrationData() = default;

OpRegistrationData& OpRegistrationData::FrameworkType(const domi::FrameworkType& framework) {
  impl_->framework = framework;
  return *this;
}

OpRegistrationData& OpRegistrationData::OriginOpType(const std::vector<ge::AscendString>& keys) {
  for (const ge::AscendString& key : keys) impl_->keys.emplace_back(key.GetString());
  return *this;
}

OpRegistrationData& OpRegistrationData::ParseParamsByOperatorFn(const ParseParamByOpFunc& parse) {
  impl_->parse = parse;
  return *this;
}

OpRegistrationData& OpRegistrationData::ImplyType(const domi::ImplyType& imply) {
  impl_->imply = imply;
  return *this;
}

OpReceiver::OpReceiver(OpRegistrationData& data) {
  for (const std::string& key : data.impl_->keys) Registry().emplace(key, data.impl_);
}

const std::map<std::string, std::shared_ptr<const OpRegistrationDataImpl>>& Registered() { return Registry(); }

}  // namespace domi
