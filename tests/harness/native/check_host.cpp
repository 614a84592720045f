// SPDX-License-Identifier: Apache-2.0

// Calls every operator of libaclnn_host.so over random pools, in all element types, and compares each bit with the
// definitions. What the library computed is written to a file, so that machines can be compared.
//
//     check_host LIBRARY CASES OUTPUT
#include <cstring>
#include <fstream>
#include <memory>
#include <utility>

#include "library.h"
#include "pools.h"

namespace native {
namespace {

// The functions of the library that make no difference between operators.
struct Api {
  explicit Api(const Library& opened)
      : library(opened),
        error_message(library.Find<decltype(&aclGetRecentErrMsg)>("aclGetRecentErrMsg")),
        create_tensor(library.Find<decltype(&aclCreateTensor)>("aclCreateTensor")),
        destroy_tensor(library.Find<decltype(&aclDestroyTensor)>("aclDestroyTensor")),
        create_list(library.Find<decltype(&aclCreateIntArray)>("aclCreateIntArray")),
        destroy_list(library.Find<decltype(&aclDestroyIntArray)>("aclDestroyIntArray")) {}

  const Library& library;
  decltype(&aclGetRecentErrMsg) error_message;
  decltype(&aclCreateTensor) create_tensor;
  decltype(&aclDestroyTensor) destroy_tensor;
  decltype(&aclCreateIntArray) create_list;
  decltype(&aclDestroyIntArray) destroy_list;
};

using List = std::unique_ptr<aclIntArray, decltype(&aclDestroyIntArray)>;

List MakeList(const Api& api, const std::vector<std::int64_t>& values) {
  return {api.create_list(values.data(), values.size()), api.destroy_list};
}

// A tensor with memory of its own, full of bytes that no result has.
class Tensor {
 public:
  Tensor(const Api& api, const std::vector<std::int64_t>& dims, aclDataType type, int bytes)
      : bytes_(bytes),
        data_(Count(dims) * static_cast<std::size_t>(bytes), 0x7b),
        handle_(nullptr, api.destroy_tensor) {
    const aclFormat format = dims.size() == 4 ? ACL_FORMAT_NCHW : ACL_FORMAT_NCDHW;
    handle_.reset(
        api.create_tensor(dims.data(), dims.size(), type, nullptr, 0, format, dims.data(), dims.size(), data_.data()));
    Expect(handle_ != nullptr, "no tensor");
  }

  aclTensor* get() const { return handle_.get(); }
  const std::vector<unsigned char>& data() const { return data_; }

  // Elements are given and taken as the integers whose low bytes they are, on machines of little endian.
  template <typename Integer>
  void Fill(const std::vector<Integer>& values) {
    for (std::size_t i = 0; i < values.size(); ++i) std::memcpy(&data_[i * Step()], &values[i], Step());
  }

  template <typename Integer>
  std::vector<Integer> Read() const {
    std::vector<Integer> values(data_.size() / Step());
    for (std::size_t i = 0; i < values.size(); ++i) std::memcpy(&values[i], &data_[i * Step()], Step());
    return values;
  }

 private:
  static std::size_t Count(const std::vector<std::int64_t>& dims) {
    std::size_t count = 1;
    for (const std::int64_t dim : dims) count *= static_cast<std::size_t>(dim);
    return count;
  }

  std::size_t Step() const { return static_cast<std::size_t>(bytes_); }

  int bytes_;
  std::vector<unsigned char> data_;
  std::unique_ptr<aclTensor, decltype(&aclDestroyTensor)> handle_;
};

// Both phases of an operator: `Phase1` is its prototype without the last two parameters.
template <typename Phase1, typename... Arguments>
aclnnStatus Call(const Api& api, const std::string& name, Arguments... arguments) {
  std::uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  const auto phase_1 = api.library.Find<Phase1>(name + "GetWorkspaceSize");
  const aclnnStatus planned = phase_1(arguments..., &workspace_size, &executor);
  if (planned != 0) return planned;
  Expect(workspace_size == 0, name + " wants a workspace");
  return api.library.Find<decltype(&aclnnMaxPool3dWithArgmax)>(name)(nullptr, 0, executor, nullptr);
}

std::string ForwardName(const Pool& pool) {
  const bool planar = pool.axes.size() == 2;
  if (pool.adaptive) return planar ? "aclnnAdaptiveMaxPool2d" : "aclnnAdaptiveMaxPool3d";
  return planar ? "aclnnMaxPool2dWithIndices" : "aclnnMaxPool3dWithArgmax";
}

aclnnStatus RunForward(const Api& api, const Pool& pool, const Tensor& x, const Tensor& y, const Tensor& argmax) {
  const std::string name = ForwardName(pool);
  if (pool.adaptive) {
    const List sizes = MakeList(api, pool.List(&Axis::pooled));
    return Call<decltype(&aclnnAdaptiveMaxPool3dGetWorkspaceSize)>(api, name, x.get(), sizes.get(), y.get(),
                                                                   argmax.get());
  }
  const List kernel = MakeList(api, pool.List(&Axis::kernel));
  const List stride = MakeList(api, pool.List(&Axis::stride));
  const List padding = MakeList(api, pool.List(&Axis::padding));
  const List dilation = MakeList(api, pool.List(&Axis::dilation));
  return Call<decltype(&aclnnMaxPool3dWithArgmaxGetWorkspaceSize)>(api, name, x.get(), kernel.get(), stride.get(),
                                                                   padding.get(), dilation.get(), pool.ceil_mode,
                                                                   y.get(), argmax.get());
}

aclnnStatus RunBackward(const Api& api, const Pool& pool, const Tensor& grad, const Tensor& x, const Tensor& argmax,
                        const Tensor& dx) {
  const std::string name = ForwardName(pool) + "Backward";
  if (pool.adaptive) {
    return Call<decltype(&aclnnAdaptiveMaxPool3dBackwardGetWorkspaceSize)>(api, name, grad.get(), x.get(), argmax.get(),
                                                                           dx.get());
  }
  const List kernel = MakeList(api, pool.List(&Axis::kernel));
  const List stride = MakeList(api, pool.List(&Axis::stride));
  const List padding = MakeList(api, pool.List(&Axis::padding));
  const List dilation = MakeList(api, pool.List(&Axis::dilation));
  return Call<decltype(&aclnnMaxPool3dWithArgmaxBackwardGetWorkspaceSize)>(api, name, grad.get(), x.get(), argmax.get(),
                                                                           kernel.get(), stride.get(), padding.get(),
                                                                           dilation.get(), pool.ceil_mode, dx.get());
}

void ExpectDone(const Api& api, aclnnStatus code, const std::string& what) {
  if (code == 0) return;
  const char* message = api.error_message();
  Die(what + ": " + std::to_string(code) + " " + (message == nullptr ? "" : message));
}

// The dtype of indices; the one adaptive pool of planes has no int32.
std::pair<aclDataType, int> DrawIndexType(Random& random, const Pool& pool) {
  const bool only_int64 = pool.adaptive && pool.axes.size() == 2;
  return only_int64 || random.Between(0, 1) == 1 ? std::pair{ACL_INT64, 8} : std::pair{ACL_INT32, 4};
}

template <typename Integer>
void ExpectSame(const std::vector<Integer>& computed, const std::vector<Integer>& expected, const std::string& what) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (computed[i] == expected[i]) continue;
    Die(what + ": element " + std::to_string(i) + " is " + std::to_string(computed[i]) + ", by the definition " +
        std::to_string(expected[i]) + " (bits, as an integer)");
  }
}

void Write(std::ostream& output, const Tensor& tensor) {
  output.write(reinterpret_cast<const char*>(tensor.data().data()), static_cast<std::streamsize>(tensor.data().size()));
}

// A pool and its gradient, compared and written down.
void Check(const Api& api, Random& random, const Pool& pool, std::ostream& output) {
  const std::string what = ForwardName(pool) + " " + pool.Text();
  const auto [index_type, index_bytes] = DrawIndexType(random, pool);
  const Format& format = *pool.format;
  const std::vector<std::int64_t> x_dims = pool.Dims(&Axis::size), y_dims = pool.Dims(&Axis::pooled);
  Tensor x(api, x_dims, format.type, format.bytes), dx(api, x_dims, format.type, format.bytes);
  Tensor y(api, y_dims, format.type, format.bytes), grad(api, y_dims, format.type, format.bytes);
  Tensor argmax(api, y_dims, index_type, index_bytes);
  const Bits values = DrawValues(random, pool), gradients = DrawGradients(random, pool);
  x.Fill(values);
  grad.Fill(gradients);

  ExpectDone(api, RunForward(api, pool, x, y, argmax), what);
  const std::vector<std::int64_t> expected = Argmax(pool, values);
  Bits maxima;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::int64_t plane = static_cast<std::int64_t>(i) / pool.pooled_size();
    maxima.push_back(values[static_cast<std::size_t>(plane * pool.plane_size() + expected[i])]);
  }
  ExpectSame(argmax.Read<std::int64_t>(), expected, what + ", indices");
  ExpectSame(y.Read<std::uint32_t>(), maxima, what + ", values");

  ExpectDone(api, RunBackward(api, pool, grad, x, argmax, dx), what + ", gradient");
  ExpectSame(dx.Read<std::uint32_t>(), Gradient(pool, gradients, expected), what + ", gradient");
  for (const Tensor* tensor : {&y, &argmax, &dx}) Write(output, *tensor);
}

void Main(const char* library_path, std::int64_t cases, const char* output_path) {
  const Library library(library_path);
  const Api api(library);
  Expect(library.Find<decltype(&aclInit)>("aclInit")(nullptr) == 0, "aclInit fails");
  Expect(library.Find<decltype(&aclrtSetDevice)>("aclrtSetDevice")(0) == 0, "aclrtSetDevice fails");
  std::ofstream output(output_path, std::ios::binary);
  Random random(1);
  for (std::int64_t i = 0; i < cases; ++i) Check(api, random, DrawPool(random, 2), output);
  for (const Format& format : kFormats) Check(api, random, LargePool(format), output);
  output.close();
  Expect(!output.fail(), std::string("cannot write ") + output_path);
  Expect(library.Find<decltype(&aclrtResetDevice)>("aclrtResetDevice")(0) == 0, "aclrtResetDevice fails");
  Expect(library.Find<decltype(&aclFinalize)>("aclFinalize")() == 0, "aclFinalize fails");
}

}  // namespace
}  // namespace native

int main(int argc, char** argv) {
  if (argc != 4) native::Die("usage: check_host LIBRARY CASES OUTPUT");
  native::Main(argv[1], std::atoll(argv[2]), argv[3]);
}
