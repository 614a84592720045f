// SPDX-License-Identifier: Apache-2.0

// GE's graphs and the models that are built from them. The engine, which the tests set, parses and builds: a built
// model is an ONNX model with the shapes of its inputs. onnxruntime's CPU provider runs it.

#include <atomic>
#include <cstring>
#include <fstream>
#include <iterator>
#include <mutex>
#include <stdexcept>
#include <string_view>

#include "cann.h"
#include "engine.h"
#include "model_runs.h"

namespace ge {

struct ParsedModel {
  int64_t number = -1;
};

}  // namespace ge

namespace stand_in {
namespace {

std::atomic<Engine> the_engine = nullptr;

// A status of GE other than success.
struct GraphError : std::runtime_error {
  GraphError(ge::graphStatus status, const std::string& message) : std::runtime_error(message), status(status) {}
  ge::graphStatus status;
};

struct Reply {
  ge::graphStatus status = ge::GRAPH_FAILED;
  std::string text = "the stand-in for CANN has no engine";

  const std::string& Checked() const {
    if (status != ge::GRAPH_SUCCESS) throw GraphError(status, text);
    return text;
  }
};

std::string Flat(const ge::Options& options) {
  std::string flat;
  for (const auto& [name, value] : options) flat += name.text() + '\0' + value.text() + '\0';
  return flat;
}

// Not within a call of the host library: the engine waits for Python's lock.
Reply AskEngine(const char* function, int64_t number, const ge::Options& options, std::string_view data) {
  Reply reply;
  const Engine engine = the_engine;
  if (engine == nullptr) return reply;
  const std::string flat = Flat(options);
  reply.status = engine(function, number, flat.data(), flat.size(), data.data(), data.size(), &reply.text);
  return reply;
}

struct LoadedModel {
  std::shared_ptr<const CpuModel> model;
  std::vector<TensorType> inputs;
  std::vector<TensorType> outputs;
};

LoadedModel Load(const std::string& built) {
  LoadedModel loaded;
  loaded.model = std::make_shared<CpuModel>(built);
  for (size_t index = 0; index < loaded.model->input_count(); ++index) {
    loaded.inputs.push_back(loaded.model->input_type(index));
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
  ge::graphStatus status = ge::GRAPH_FAILED;
  const auto checked = [&] {
    try {
      body();
    } catch (const GraphError& error) {
      status = error.status;
      throw;
    }
  };
  return Call(function, nullptr, checked) == ACL_SUCCESS ? ge::GRAPH_SUCCESS : status;
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

void standInSetEngine(Engine engine) { the_engine = engine; }

void standInAnswer(void* reply, const char* data, size_t size) { static_cast<std::string*>(reply)->assign(data, size); }

namespace ge {

AscendString::AscendString(const char* text) : text_(std::make_shared<std::string>(text)) {}

bool AscendString::operator<(const AscendString& other) const { return *text_ < *other.text_; }

Graph::Graph(const char* /*name*/) : model_(std::make_shared<ParsedModel>()) {}

STAND_IN_FUNCTION(aclgrphParseONNXFromMem)
graphStatus aclgrphParseONNXFromMem(const char* data, size_t size, const Options& options, Graph& graph) {
  const Reply reply = AskEngine("parse", -1, options, std::string_view(data, size));
  return GraphCall(__func__, [&] { graph.model()->number = std::stoll(reply.Checked()); });
}

STAND_IN_FUNCTION(aclgrphBuildInitialize)
graphStatus aclgrphBuildInitialize(Options& options) {
  const Reply reply = AskEngine("initialize", -1, options, "");
  return GraphCall(__func__, [&] { reply.Checked(); });
}

void aclgrphBuildFinalize() {}

STAND_IN_FUNCTION(aclgrphBuildModel)
graphStatus aclgrphBuildModel(const Graph& graph, const Options& options, ModelBufferData& model) {
  const Reply reply = AskEngine("build", graph.model()->number, options, "");
  return GraphCall(__func__, [&] {
    const std::string& built = reply.Checked();
    const CpuModel valid(built);
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
