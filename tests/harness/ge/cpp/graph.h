// SPDX-License-Identifier: Apache-2.0

// What a parser plugin uses of GE's library `libgraph.so`, and what the driver needs to make operators and read them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace ge {

using graphStatus = uint32_t;
constexpr graphStatus GRAPH_SUCCESS = 0;
constexpr graphStatus GRAPH_FAILED = 0xFFFFFFFF;

// GE's number of a format. A new description has ND.
enum Format : int32_t { FORMAT_ND = 2 };

class AscendString {
 public:
  AscendString() = default;
  AscendString(const char* text);
  const char* GetString() const;

 private:
  std::shared_ptr<std::string> text_;
};

class TensorDescImpl;
class TensorDesc {
 public:
  TensorDesc();
  TensorDesc(const TensorDesc& other);
  TensorDesc& operator=(const TensorDesc& other);
  ~TensorDesc() = default;

  void SetFormat(Format format);
  void SetOriginFormat(Format format);
  Format GetFormat() const;
  Format GetOriginFormat() const;

 private:
  std::shared_ptr<TensorDescImpl> impl_;
};

class OperatorImpl;
class Operator {
 public:
  Operator();
  virtual ~Operator() = default;

  graphStatus GetAttr(const char* name, AscendString& value) const;
  Operator& SetAttr(const char* name, bool value);
  Operator& SetAttr(const char* name, int64_t value);
  Operator& SetAttr(const char* name, const AscendString& value);
  Operator& SetAttr(const char* name, const std::vector<int64_t>& value);

  TensorDesc GetInputDesc(uint32_t index) const;
  TensorDesc GetOutputDesc(uint32_t index) const;
  graphStatus UpdateInputDesc(const char* name, const TensorDesc& desc);
  graphStatus UpdateOutputDesc(const char* name, const TensorDesc& desc);

 private:
  friend OperatorImpl& Contents(const Operator&);
  std::shared_ptr<OperatorImpl> impl_;
};

using Attribute = std::variant<bool, int64_t, std::string, std::vector<int64_t>, std::vector<std::string>>;

struct NamedTensor {
  std::string name;
  TensorDesc desc;
};

// An operator as the driver makes and reads it.
class OperatorImpl {
 public:
  std::map<std::string, Attribute> attributes;
  std::vector<NamedTensor> inputs;
  std::vector<NamedTensor> outputs;
};

OperatorImpl& Contents(const Operator& op);

}  // namespace ge
