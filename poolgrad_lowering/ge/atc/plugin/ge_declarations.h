// SPDX-License-Identifier: Apache-2.0

// Declarations by hand of the part of GE (CANN's graph engine) that a parser plugin uses, so that the plugin builds
// without a toolkit. They agree with register/register.h and graph/operator.h of CANN 8 and 9. No function takes or
// returns a std::string, so the symbols are the same for both string ABIs of libstdc++.
#ifndef POOLGRAD_ATC_PLUGIN_GE_DECLARATIONS_H_
#define POOLGRAD_ATC_PLUGIN_GE_DECLARATIONS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace ge {

using graphStatus = std::uint32_t;

enum Format { FORMAT_NCHW = 0, FORMAT_NCDHW = 30 };

// In GE a shared pointer to its text. The type of what it points to is not part of its layout.
class AscendString {
 public:
  AscendString() = default;
  AscendString(const char* text);
  const char* GetString() const;

 private:
  std::shared_ptr<void> text_;
};

class TensorDesc {
 public:
  TensorDesc(const TensorDesc& other);
  void SetFormat(Format format);
  void SetOriginFormat(Format format);

 private:
  std::shared_ptr<void> impl_;
};

// Plugins get references to operators and never make one: its layout is left open.
class Operator {
 public:
  Operator() = delete;
  graphStatus GetAttr(const char* name, AscendString& value) const;
  Operator& SetAttr(const char* name, bool value);
  Operator& SetAttr(const char* name, std::int64_t value);
  Operator& SetAttr(const char* name, const AscendString& value);
  Operator& SetAttr(const char* name, const std::vector<std::int64_t>& value);
  TensorDesc GetInputDesc(std::uint32_t index) const;
  TensorDesc GetOutputDesc(std::uint32_t index) const;
  graphStatus UpdateInputDesc(const char* name, const TensorDesc& desc);
  graphStatus UpdateOutputDesc(const char* name, const TensorDesc& desc);
};

}  // namespace ge

namespace domi {

using Status = std::uint32_t;
constexpr Status SUCCESS = 0;
constexpr Status FAILED = 0xFFFFFFFF;

enum FrameworkType { ONNX = 5 };
enum class ImplyType : unsigned int { TVM = 1 };

using ParseParamByOpFunc = std::function<Status(const ge::Operator&, ge::Operator&)>;

class OpRegistrationData {
 public:
  OpRegistrationData(const char* ge_type);
  ~OpRegistrationData();
  OpRegistrationData& FrameworkType(const domi::FrameworkType& framework);
  OpRegistrationData& OriginOpType(const std::vector<ge::AscendString>& keys);
  OpRegistrationData& ParseParamsByOperatorFn(const ParseParamByOpFunc& callback);
  OpRegistrationData& ImplyType(const domi::ImplyType& type);

 private:
  std::shared_ptr<void> impl_;
};

class OpReceiver {
 public:
  OpReceiver(OpRegistrationData& data);
};

}  // namespace domi

#endif  // POOLGRAD_ATC_PLUGIN_GE_DECLARATIONS_H_
