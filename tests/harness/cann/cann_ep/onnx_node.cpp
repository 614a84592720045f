// SPDX-License-Identifier: Apache-2.0

#include "onnx_node.h"

#include <cstring>

namespace stand_in {
namespace {

constexpr int64_t kIrVersion = 8;
constexpr int64_t kOpset = 17;

// A message of protocol buffers, with the field numbers of onnx.proto.
class Message {
 public:
  Message& Int(int field, int64_t value) {
    Key(field, 0);
    Varint(static_cast<uint64_t>(value));
    return *this;
  }

  Message& Float(int field, float value) {
    Key(field, 5);
    char bytes[sizeof(value)];
    std::memcpy(bytes, &value, sizeof(value));
    bytes_.append(bytes, sizeof(value));
    return *this;
  }

  Message& Bytes(int field, const std::string& value) {
    Key(field, 2);
    Varint(value.size());
    bytes_ += value;
    return *this;
  }

  Message& Nested(int field, const Message& message) { return Bytes(field, message.bytes_); }

  const std::string& bytes() const { return bytes_; }

 private:
  void Key(int field, int wire_type) { Varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire_type)); }

  void Varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

Message AttributeProto(const std::string& name, const OnnxAttribute& value) {
  Message message;
  message.Bytes(1, name);
  if (const auto* number = std::get_if<float>(&value)) {
    message.Float(2, *number).Int(20, 1);
  } else if (const auto* integer = std::get_if<int64_t>(&value)) {
    message.Int(3, *integer).Int(20, 2);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    message.Bytes(4, *text).Int(20, 3);
  } else {
    for (const int64_t each : std::get<std::vector<int64_t>>(value)) message.Int(8, each);
    message.Int(20, 7);
  }
  return message;
}

Message TensorProto(const std::string& name, const std::vector<int64_t>& values) {
  Message message;
  message.Int(1, static_cast<int64_t>(values.size())).Int(2, 7);
  for (const int64_t value : values) message.Int(7, value);
  return message.Bytes(8, name);
}

Message ValueInfoProto(const std::string& name, int element_type) {
  const Message tensor = Message().Int(1, element_type);
  return Message().Bytes(1, name).Nested(2, Message().Nested(1, tensor));
}

}  // namespace

std::string OneNodeModel(const OnnxNode& node, const std::vector<int>& input_types,
                         const std::vector<int>& output_types) {
  Message node_proto;
  Message graph;
  for (size_t index = 0; index < input_types.size(); ++index) {
    const std::string name = input_types[index] != 0 ? "x" + std::to_string(index) : "";
    node_proto.Bytes(1, name);
    if (!name.empty()) graph.Nested(11, ValueInfoProto(name, input_types[index]));
  }
  for (size_t index = 0; index < node.constants.size(); ++index) {
    const std::string name = "c" + std::to_string(index);
    node_proto.Bytes(1, name);
    graph.Nested(5, TensorProto(name, node.constants[index]));
  }
  for (size_t index = 0; index < output_types.size(); ++index) {
    const std::string name = "y" + std::to_string(index);
    node_proto.Bytes(2, name);
    graph.Nested(12, ValueInfoProto(name, output_types[index]));
  }
  node_proto.Bytes(4, node.op);
  for (const auto& [name, value] : node.attributes) node_proto.Nested(5, AttributeProto(name, value));
  graph.Nested(1, node_proto).Bytes(2, "one_node");
  const Message opset = Message().Bytes(1, "").Int(2, kOpset);
  return Message().Int(1, kIrVersion).Nested(7, graph).Nested(8, opset).bytes();
}

}  // namespace stand_in
