// SPDX-License-Identifier: Apache-2.0

// Opens a parser plugin as GE does, writes a line with what it has registered, and then answers each request by what
// the plugin's callback made of a node. Requests and answers are lines of JSON; `driver.py` writes and reads them. An
// exception that leaves a callback ends the process, as it would end ATC.

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <stdexcept>
#include <string>

#include "graph.h"
#include "json.h"
#include "register.h"

namespace {

// The standard output as it was when the driver started; what a plugin writes to its standard output goes to the
// standard error instead.
class Answers {
 public:
  Answers() : file_(fdopen(dup(STDOUT_FILENO), "w")) { dup2(STDERR_FILENO, STDOUT_FILENO); }
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;
  ~Answers() { std::fclose(file_); }

  void Write(const json::Value& answer) {
    std::fflush(stdout);
    std::fprintf(file_, "%s\n", json::Write(answer).c_str());
    std::fflush(file_);
  }

 private:
  std::FILE* file_;
};

json::Value Integers(const std::vector<int64_t>& values) {
  json::Array items;
  for (const int64_t value : values) items.push_back({value});
  return {items};
}

json::Value Strings(const std::vector<std::string>& values) {
  json::Array items;
  for (const std::string& value : values) items.push_back({value});
  return {items};
}

// A value and GE's name of its type.
struct Described {
  json::Value operator()(bool value) const { return Typed("BOOL", {value}); }
  json::Value operator()(int64_t value) const { return Typed("INT", {value}); }
  json::Value operator()(const std::string& value) const { return Typed("STRING", {value}); }
  json::Value operator()(const std::vector<int64_t>& value) const { return Typed("LIST_INT", Integers(value)); }
  json::Value operator()(const std::vector<std::string>& value) const { return Typed("LIST_STRING", Strings(value)); }

  static json::Value Typed(const char* type, const json::Value& value) {
    return {json::Object{{"type", {std::string(type)}}, {"value", value}}};
  }
};

ge::Attribute ToAttribute(const json::Value& value) {
  if (const auto* flag = std::get_if<bool>(&value.data)) return *flag;
  if (const auto* number = std::get_if<int64_t>(&value.data)) return *number;
  if (const auto* text = std::get_if<std::string>(&value.data)) return *text;
  const json::Array& items = value.Items();
  if (!items.empty() && std::holds_alternative<std::string>(items.front().data)) {
    std::vector<std::string> texts;
    for (const json::Value& item : items) texts.push_back(item.Text());
    return texts;
  }
  std::vector<int64_t> numbers;
  for (const json::Value& item : items) numbers.push_back(std::get<int64_t>(item.data));
  return numbers;
}

void SetAttributes(const json::Value& values, ge::Operator& op) {
  for (const auto& [name, value] : values.Members()) ge::Contents(op).attributes[name] = ToAttribute(value);
}

std::vector<ge::NamedTensor> Tensors(const json::Value& names) {
  std::vector<ge::NamedTensor> tensors;
  for (const json::Value& name : names.Items()) tensors.push_back({name.Text(), ge::TensorDesc()});
  return tensors;
}

json::Value Formats(const std::vector<ge::NamedTensor>& tensors) {
  json::Array items;
  for (const ge::NamedTensor& tensor : tensors)
    items.push_back({json::Object{{"name", {tensor.name}},
                                  {"format", {int64_t{tensor.desc.GetFormat()}}},
                                  {"origin_format", {int64_t{tensor.desc.GetOriginFormat()}}}}});
  return {items};
}

json::Value Registrations() {
  json::Object found;
  for (const auto& [key, data] : domi::Registered())
    found[key] = {json::Object{{"type", {data->om_type}},
                               {"framework", {int64_t{data->framework}}},
                               {"imply", {static_cast<int64_t>(data->imply)}},
                               {"by_operator", {static_cast<bool>(data->parse)}}}};
  return {found};
}

json::Value Answer(const json::Object& request) {
  const auto found = domi::Registered().find(request.at("key").Text());
  if (found == domi::Registered().end()) throw std::runtime_error("unregistered: " + request.at("key").Text());
  ge::Operator source;
  SetAttributes(request.at("source"), source);
  ge::Operator made;
  SetAttributes(request.at("defaults"), made);
  ge::Contents(made).inputs = Tensors(request.at("inputs"));
  ge::Contents(made).outputs = Tensors(request.at("outputs"));

  const domi::Status status = found->second->parse(source, made);

  json::Object attributes;
  for (const auto& [name, value] : ge::Contents(made).attributes) attributes[name] = std::visit(Described(), value);
  return {json::Object{{"status", {int64_t{status}}},
                       {"attributes", {attributes}},
                       {"inputs", Formats(ge::Contents(made).inputs)},
                       {"outputs", Formats(ge::Contents(made).outputs)}}};
}

void Serve(const char* plugin) {
  Answers answers;
  if (dlopen(plugin, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE) == nullptr) throw std::runtime_error(dlerror());
  answers.Write(Registrations());
  for (std::string line; std::getline(std::cin, line);) answers.Write(Answer(json::Read(line).Members()));
}

}  // namespace

int main(int count, char** arguments) {
  try {
    if (count != 2) throw std::runtime_error("usage: driver PLUGIN");
    Serve(arguments[1]);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
