// SPDX-License-Identifier: Apache-2.0

// GE's graphs and the models that are built from them. A model consists of the ONNX model that it was parsed from and
// the shapes of its inputs; onnxruntime's CPU provider runs it.

#include <cstring>
#include <fstream>
#include <iterator>
#include <mutex>
#include <sstream>
#include <stdexcept>

#include "calls.h"
#include "cann.h"

namespace ge {

struct ParsedModel {
  std::string onnx;
};

}  // namespace ge

namespace stand_in {
namespace {

struct LoadedModel {
  std::shared_ptr<const CpuModel> model;
  std::vector<TensorType> inputs;
  std::vector<TensorType> outputs;
};

// Parses "name:1,2;other:3", the syntax of the option ge.inputShape. Names may contain colons.
std::map<std::string, std::vector<int64_t>> ReadShapes(const std::string& text) {
  std::map<std::string, std::vector<int64_t>> shapes;
  std::istringstream entries(text);
  for (std::string entry; std::getline(entries, entry, ';');) {
    const size_t colon = entry.rfind(':');
    std::vector<int64_t>& shape = shapes[entry.substr(0, colon)];
    std::istringstream dims(entry.substr(std::min(colon, entry.size() - 1) + 1));
    for (std::string dim; std::getline(dims, dim, ',');) shape.push_back(std::stoll(dim));
  }
  return shapes;
}

LoadedModel Load(const std::string& built) {
  const size_t end = built.find('\0');
  if (end == std::string::npos) throw std::runtime_error("this is no model of the stand-in for CANN");
  const auto shapes = ReadShapes(built.substr(0, end));
  LoadedModel loaded;
  loaded.model = std::make_shared<CpuModel>(std::string_view(built).substr(end + 1));
  for (size_t index = 0; index < loaded.model->input_count(); ++index) {
    const auto shape = shapes.find(loaded.model->input_name(index));
    if (shape == shapes.end()) throw std::runtime_error("no shape of input " + loaded.model->input_name(index));
    loaded.inputs.push_back({loaded.model->input_element_type(index), shape->second});
  }
  loaded.outputs = loaded.model->OutputTypes(loaded.inputs);
  return loaded;
}

// The loaded models by number.
class Models {
 public:
  uint32_t Add(LoadedModel model) {
    const std::lock_guard lock(mutex_);
    models_.emplace(++last_, std::make_shared<const LoadedModel>(std::move(model)));
    return last_;
  }

  std::shared_ptr<const LoadedModel> Get(uint32_t number) {
    const std::lock_guard lock(mutex_);
    const auto found = models_.find(number);
    if (found == models_.end()) throw std::runtime_error("there is no model " + std::to_string(number));
    return found->second;
  }

  void Remove(uint32_t number) {
    Get(number);
    const std::lock_guard lock(mutex_);
    models_.erase(number);
  }

 private:
  std::mutex mutex_;
  uint32_t last_ = 0;
  std::map<uint32_t, std::shared_ptr<const LoadedModel>> models_;
};

Models& AllModels() {
  static auto* const models = new Models;
  return *models;
}

ge::graphStatus GraphCall(const char* function, const std::function<void()>& body) {
  return Call(function, nullptr, body) == ACL_SUCCESS ? ge::GRAPH_SUCCESS : ge::GRAPH_FAILED;
}

}  // namespace
}  // namespace stand_in

using namespace stand_in;

struct aclmdlDesc {
  std::shared_ptr<const LoadedModel> model;
};

struct aclmdlDataset {
  std::vector<aclDataBuffer*> buffers;
};

namespace ge {

AscendString::AscendString(const char* text) : text_(std::make_shared<std::string>(text)) {}

bool AscendString::operator<(const AscendString& other) const { return *text_ < *other.text_; }

Graph::Graph(const char* /*name*/) : model_(std::make_shared<ParsedModel>()) {}

STAND_IN_FUNCTION(aclgrphParseONNXFromMem)
graphStatus aclgrphParseONNXFromMem(const char* data, size_t size, const Options& /*options*/, Graph& graph) {
  return GraphCall(__func__, [&] {
    const CpuModel valid(std::string_view(data, size));
    graph.model()->onnx.assign(data, size);
  });
}

STAND_IN_FUNCTION(aclgrphBuildInitialize)
graphStatus aclgrphBuildInitialize(Options& /*options*/) {
  return GraphCall(__func__, [] {});
}

void aclgrphBuildFinalize() {}

STAND_IN_FUNCTION(aclgrphBuildModel)
graphStatus aclgrphBuildModel(const Graph& graph, const Options& options, ModelBufferData& model) {
  return GraphCall(__func__, [&] {
    const auto shapes = options.find(AscendString("input_shape"));
    if (shapes == options.end()) throw std::runtime_error("the option input_shape is missing");
    const std::string built = shapes->second.text() + '\0' + graph.model()->onnx;
    model.length = built.size();
    model.data = std::shared_ptr<uint8_t>(new uint8_t[built.size()], std::default_delete<uint8_t[]>());
    std::memcpy(model.data.get(), built.data(), built.size());
  });
}

STAND_IN_FUNCTION(aclgrphSaveModel)
graphStatus aclgrphSaveModel(const char* path, const ModelBufferData& model) {
  return GraphCall(__func__, [&] {
    std::ofstream file(std::string(path) + ".om", std::ios::binary);
    file.write(reinterpret_cast<const char*>(model.data.get()), static_cast<std::streamsize>(model.length));
    if (!file.flush()) throw std::runtime_error(std::string("cannot write ") + path);
  });
}

}  // namespace ge

STAND_IN_FUNCTION(aclmdlLoadFromMem)
aclError aclmdlLoadFromMem(const void* data, size_t size, uint32_t* model) {
  return Call(__func__, nullptr,
              [&] { *model = AllModels().Add(Load(std::string(static_cast<const char*>(data), size))); });
}

STAND_IN_FUNCTION(aclmdlLoadFromFile)
aclError aclmdlLoadFromFile(const char* path, uint32_t* model) {
  return Call(__func__, nullptr, [&] {
    std::ifstream file(path, std::ios::binary);
    *model = AllModels().Add(Load(std::string(std::istreambuf_iterator<char>(file), {})));
  });
}

STAND_IN_FUNCTION(aclmdlUnload)
aclError aclmdlUnload(uint32_t model) {
  return Call(__func__, nullptr, [&] { AllModels().Remove(model); });
}

aclmdlDesc* aclmdlCreateDesc() { return new aclmdlDesc; }

aclError aclmdlDestroyDesc(aclmdlDesc* desc) {
  delete desc;
  return ACL_SUCCESS;
}

STAND_IN_FUNCTION(aclmdlGetDesc)
aclError aclmdlGetDesc(aclmdlDesc* desc, uint32_t model) {
  return Call(__func__, nullptr, [&] { desc->model = AllModels().Get(model); });
}

size_t aclmdlGetNumInputs(aclmdlDesc* desc) { return desc->model->inputs.size(); }

size_t aclmdlGetNumOutputs(aclmdlDesc* desc) { return desc->model->outputs.size(); }

size_t aclmdlGetInputSizeByIndex(aclmdlDesc* desc, size_t index) { return ByteSize(desc->model->inputs.at(index)); }

size_t aclmdlGetOutputSizeByIndex(aclmdlDesc* desc, size_t index) { return ByteSize(desc->model->outputs.at(index)); }

aclError aclmdlGetOutputDims(const aclmdlDesc* desc, size_t index, aclmdlIODims* dims) {
  const std::vector<int64_t>& known = desc->model->outputs.at(index).dims;
  dims->dimCount = known.size();
  std::copy(known.begin(), known.end(), dims->dims);
  return ACL_SUCCESS;
}

aclmdlDataset* aclmdlCreateDataset() { return new aclmdlDataset; }

aclError aclmdlDestroyDataset(const aclmdlDataset* dataset) {
  delete dataset;
  return ACL_SUCCESS;
}

aclError aclmdlAddDatasetBuffer(aclmdlDataset* dataset, aclDataBuffer* buffer) {
  dataset->buffers.push_back(buffer);
  return ACL_SUCCESS;
}

aclDataBuffer* aclmdlGetDatasetBuffer(const aclmdlDataset* dataset, size_t index) {
  return index < dataset->buffers.size() ? dataset->buffers[index] : nullptr;
}

// Only for models whose output shapes depend on values, which the stand-in does not support.
aclTensorDesc* aclmdlGetDatasetTensorDesc(const aclmdlDataset* /*dataset*/, size_t /*index*/) { return nullptr; }

STAND_IN_FUNCTION(aclmdlExecute)
aclError aclmdlExecute(uint32_t /*model*/, const aclmdlDataset* /*inputs*/, aclmdlDataset* /*outputs*/) {
  return Call(__func__, nullptr, [] { throw std::runtime_error("the stand-in for CANN has no dynamic outputs"); });
}

STAND_IN_FUNCTION(aclmdlExecuteAsync)
aclError aclmdlExecuteAsync(uint32_t model, const aclmdlDataset* inputs, aclmdlDataset* outputs, aclrtStream stream) {
  return Call(__func__, stream, [&] {
    const auto loaded = AllModels().Get(model);
    const auto operands = [](const std::vector<aclDataBuffer*>& buffers, const std::vector<TensorType>& types) {
      std::vector<Operand> found;
      for (size_t index = 0; index < types.size(); ++index) {
        found.push_back({aclGetDataBufferAddr(buffers.at(index)), types[index]});
      }
      return found;
    };
    Launch(stream, loaded->model, operands(inputs->buffers, loaded->inputs),
           operands(outputs->buffers, loaded->outputs));
  });
}
