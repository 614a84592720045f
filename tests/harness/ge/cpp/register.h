// SPDX-License-Identifier: Apache-2.0

// What a parser plugin uses of GE's library `libregister.so`, and the registry that the driver reads.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph.h"

namespace domi {

using Status = uint32_t;
enum FrameworkType : int32_t { CAFFE = 0, ONNX = 5 };
enum class ImplyType : uint32_t { BUILDIN = 0 };
using ParseParamByOpFunc = std::function<Status(const ge::Operator&, ge::Operator&)>;

class OpRegistrationDataImpl {
 public:
  std::string om_type;
  FrameworkType framework = CAFFE;
  ImplyType imply = ImplyType::BUILDIN;
  std::vector<std::string> keys;
  ParseParamByOpFunc parse;
};

class OpRegistrationData {
 public:
  OpRegistrationData(const char* om_type);
  ~OpRegistrationData();
  OpRegistrationData& FrameworkType(const domi::FrameworkType& framework);
  OpRegistrationData& OriginOpType(const std::vector<ge::AscendString>& keys);
  OpRegistrationData& ParseParamsByOperatorFn(const ParseParamByOpFunc& parse);
  OpRegistrationData& ImplyType(const domi::ImplyType& imply);

 private:
  friend class OpReceiver;
  std::shared_ptr<OpRegistrationDataImpl> impl_;
};

class OpReceiver {
 public:
  OpReceiver(OpRegistrationData& data);
  ~OpReceiver() = default;
};

// What is registered for each key `<domain>::<version>::<operator>`: the first registration counts.
const std::map<std::string, std::shared_ptr<const OpRegistrationDataImpl>>& Registered();

}  // namespace domi
