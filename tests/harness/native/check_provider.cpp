// SPDX-License-Identifier: Apache-2.0

// Registers libpoolgrad_ep.so as onnxruntime would, and runs its custom operators on the host library beside it over
// random pools. What they computed is written to a file, so that machines can be compared.
//
//     check_provider LIBRARY CASES OUTPUT
#include <cstring>
#include <fstream>
#include <memory>

#include "fake_ort.h"
#include "library.h"
#include "pools.h"

// The exports, as the library defines them.
extern "C" {
poolgrad::ort::OrtStatus* CreateEpFactories(const char* registered_name, const poolgrad::ort::OrtApiBase* base,
                                            const poolgrad::ort::OrtLogger* logger,
                                            poolgrad::ort::OrtEpFactory** factories, std::size_t max_factories,
                                            std::size_t* factory_count);
poolgrad::ort::OrtStatus* ReleaseEpFactory(poolgrad::ort::OrtEpFactory* factory);
poolgrad::ort::OrtStatus* RegisterCustomOps(poolgrad::ort::OrtSessionOptions* options,
                                            const poolgrad::ort::OrtApiBase* base);
const char* PoolgradDescribeRuntime(const char* request);
}

namespace native {
namespace {

namespace ort = poolgrad::ort;

// With a greater one the provider does not take every pool of which each window has an element.
constexpr std::int64_t kDilation = 1;

void ExpectDone(ort::OrtStatus* status, const std::string& what) {
  if (status != nullptr) Die(what + ": " + status->message);
}

void CheckFactory(const Library& library) {
  const auto create = library.Find<decltype(&CreateEpFactories)>("CreateEpFactories");
  ort::OrtEpFactory* factory = nullptr;
  std::size_t count = 0;
  const std::unique_ptr<ort::OrtStatus> refusal(create("", &FakeOrt("1.23.2"), nullptr, &factory, 1, &count));
  Expect(refusal != nullptr && refusal->message.find("1.24.1 or newer") != std::string::npos, "1.23.2 is not refused");

  ExpectDone(create("", &FakeOrt("1.24.1"), nullptr, &factory, 1, &count), "CreateEpFactories");
  Expect(count == 1 && factory->ort_version_supported == ort::kApiVersion, "no factory of API 24");
  Expect(std::string(factory->GetName(factory)) == "AclnnExecutionProvider", "the factory has another name");
  Expect(factory->GetVendorId(factory) == 0x19e5, "the factory has another vendor");

  const ort::OrtHardwareDevice cpu;
  const ort::OrtHardwareDevice* const devices[] = {&cpu};
  ort::OrtEpDevice* device = nullptr;
  ExpectDone(factory->GetSupportedDevices(factory, devices, 1, &device, 1, &count), "GetSupportedDevices");
  Expect(count == 1 && device->metadata.pairs["backend"] == "host", "the CPU is no device of backend host");
  delete device;
  ExpectDone(library.Find<decltype(&ReleaseEpFactory)>("ReleaseEpFactory")(factory), "ReleaseEpFactory");
}

void CheckDescription(const Library& library) {
  const std::string text = library.Find<decltype(&PoolgradDescribeRuntime)>("PoolgradDescribeRuntime")("host");
  for (const char* part : {"\"backend\": \"host\"", "\"problem\": null", "\"soc\": \"Ascend950", "\"missing\": []"}) {
    Expect(text.find(part) != std::string::npos, std::string("not in the description: ") + part + "\n" + text);
  }
}

struct Names {
  const char* forward;
  const char* backward;
};

Names OperatorsFor(const Pool& pool) {
  if (pool.adaptive) return {"AdaptiveMaxPool3d", "AdaptiveMaxPool3DGrad"};
  if (pool.axes.size() == 2) return {"MaxPoolWithArgmaxV3", "MaxPoolGradWithArgmaxV3"};
  return {"MaxPool3DWithArgmaxV2", "MaxPool3DGradWithArgmax"};
}

ort::ONNXTensorElementDataType TypeOf(const Format& format) {
  if (format.type == ACL_FLOAT) return ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
  return format.type == ACL_FLOAT16 ? ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16
                                    : ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16;
}

// A node with all attributes that an operator for the pool may ask for.
ort::OrtKernelInfo NodeOf(const Pool& pool) {
  ort::OrtKernelInfo node;
  node.ints = {{"ceil_mode", pool.ceil_mode ? 1 : 0},
               {"dtype", ACL_INT32},
               {"indices_dtype", ACL_INT32},
               {"onnx_ceil_mode", pool.ceil_mode ? 1 : 0}};
  node.strings = {{"data_format", pool.axes.size() == 2 ? "NCHW" : "NCDHW"}};
  node.lists = {{"ksize", pool.List(&Axis::kernel)},           {"strides", pool.List(&Axis::stride)},
                {"pads", pool.List(&Axis::padding)},           {"dilation", pool.List(&Axis::dilation)},
                {"output_size", pool.List(&Axis::pooled)},     {"onnx_kernel_shape", pool.List(&Axis::kernel)},
                {"onnx_strides", pool.List(&Axis::stride)},    {"onnx_pads", pool.List(&Axis::padding)},
                {"onnx_dilations", pool.List(&Axis::dilation)}};
  std::vector<std::int64_t>& pads = node.lists["onnx_pads"];
  const std::vector<std::int64_t> ends = pads;
  pads.insert(pads.end(), ends.begin(), ends.end());
  if (pool.axes.size() == 2) node.lists["output_size"].insert(node.lists["output_size"].begin(), 1);
  return node;
}

const ort::OrtCustomOp& FindOp(const ort::OrtCustomOpDomain& domain, const std::string& name,
                               const std::vector<ort::OrtValue>& inputs) {
  for (const ort::OrtCustomOp* op : domain.ops) {
    bool is_it = name == op->GetName(op);
    for (std::size_t i = 0; is_it && i < inputs.size(); ++i) is_it = op->GetInputType(op, i) == inputs[i].info.type;
    if (is_it) return *op;
  }
  Die("there is no custom operator " + name + " of these types");
}

// Makes a kernel and runs it twice: the second run finds what the first has planned.
std::vector<ort::OrtValue> Run(const ort::OrtCustomOpDomain& domain, const std::string& name, const Pool& pool,
                               std::vector<ort::OrtValue> inputs, std::vector<ort::OrtValue> outputs) {
  const ort::OrtCustomOp& op = FindOp(domain, name, inputs);
  ort::OrtKernelInfo node = NodeOf(pool);
  for (const ort::OrtValue& value : inputs) node.inputs.push_back(value.info);
  for (const ort::OrtValue& value : outputs) node.outputs.push_back(value.info);
  void* kernel = nullptr;
  ExpectDone(op.CreateKernelV2(&op, FakeOrt("1.19.2").GetApi(19), &node, &kernel), name + ", kernel of " + pool.Text());
  ort::OrtKernelContext context{std::move(inputs), std::move(outputs)};
  for (int run = 0; run < 2; ++run) ExpectDone(op.KernelComputeV2(kernel, &context), name + " " + pool.Text());
  op.KernelDestroy(kernel);
  return context.outputs;
}

// A tensor of integers' low bytes, on machines of little endian.
template <typename Integer>
ort::OrtValue MakeValue(ort::ONNXTensorElementDataType type, std::vector<std::int64_t> dims,
                        const std::vector<Integer>& elements) {
  const std::size_t bytes = BytesOf(type);
  ort::OrtValue value{{type, std::move(dims)}, std::vector<unsigned char>(elements.size() * bytes)};
  for (std::size_t i = 0; i < elements.size(); ++i) std::memcpy(&value.data[i * bytes], &elements[i], bytes);
  return value;
}

void ExpectSame(const ort::OrtValue& computed, const ort::OrtValue& expected, const std::string& what) {
  Expect(computed.info.dims == expected.info.dims, what + " has other dims");
  Expect(computed.data == expected.data, what + " has other bits than the definition gives");
}

// Runs a pool and its gradient, and compares them with the definitions.
void Check(const ort::OrtCustomOpDomain& domain, Random& random, const Pool& pool, std::ostream& output) {
  const auto [forward, backward] = OperatorsFor(pool);
  const ort::ONNXTensorElementDataType type = TypeOf(*pool.format), index = ort::ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32;
  const std::vector<std::int64_t> x_dims = pool.Dims(&Axis::size), y_dims = pool.Dims(&Axis::pooled);
  const Bits values = DrawValues(random, pool), gradients = DrawGradients(random, pool);
  const std::vector<std::int64_t> elements = Argmax(pool, values);
  const ort::OrtValue x = MakeValue(type, x_dims, values), grad = MakeValue(type, y_dims, gradients);
  const ort::OrtValue argmax = MakeValue(index, y_dims, elements);

  const auto pooled = Run(domain, forward, pool, {x}, {{{type, y_dims}, {}}, {{index, y_dims}, {}}});
  ExpectSame(pooled[1], argmax, std::string(forward) + " " + pool.Text() + ", argmax");
  const auto dx = Run(domain, backward, pool, {x, grad, argmax}, {{{type, x_dims}, {}}});
  ExpectSame(dx[0], MakeValue(type, x_dims, Gradient(pool, gradients, elements)),
             std::string(backward) + " " + pool.Text());
  for (const ort::OrtValue& value : {pooled[0], pooled[1], dx[0]}) {
    output.write(reinterpret_cast<const char*>(value.data.data()), static_cast<std::streamsize>(value.data.size()));
  }
}

void Main(const char* library_path, std::int64_t cases, const char* output_path) {
  const Library library(library_path);
  CheckDescription(library);
  CheckFactory(library);
  ort::OrtSessionOptions options{};
  ExpectDone(library.Find<decltype(&RegisterCustomOps)>("RegisterCustomOps")(&options, &FakeOrt("1.19.2")),
             "RegisterCustomOps");
  Expect(options.domain != nullptr && options.domain->name == "npu", "there are no operators of domain npu");
  std::ofstream output(output_path, std::ios::binary);
  Random random(2);
  for (std::int64_t i = 0; i < cases; ++i) Check(*options.domain, random, DrawPool(random, kDilation), output);
  output.close();
  Expect(!output.fail(), std::string("cannot write ") + output_path);
}

}  // namespace
}  // namespace native

int main(int argc, char** argv) {
  if (argc != 4) native::Die("usage: check_provider LIBRARY CASES OUTPUT");
  native::Main(argv[1], std::atoll(argv[2]), argv[3]);
}
