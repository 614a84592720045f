// SPDX-License-Identifier: Apache-2.0

// The calls of aclnn that a gradient node makes in a Run which finds its plan, and nothing else: what is left of a
// Run's time is onnxruntime's and the provider's.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "abi/acl.h"

namespace {

constexpr std::array<aclDataType, 4> kTypes = {ACL_FLOAT, ACL_FLOAT, ACL_INT32, ACL_FLOAT};
constexpr std::int64_t kElementBytes = 4;  // of each of them

void Check(int code, const char* call) {
  if (code == ACL_SUCCESS) return;
  std::fprintf(stderr, "%s failed with %d: %s\n", call, code, aclGetRecentErrMsg());
  std::abort();
}

aclIntArray* Triple(std::int64_t value) {
  const std::array<std::int64_t, 3> values = {value, value, value};
  return aclCreateIntArray(values.data(), values.size());
}

// A tensor's memory, which lives as long as the process: with its elements' positions as int32, which is what windows
// of one element record as their maxima.
void* MakeMemory(std::int64_t elements) {
  std::vector<std::int32_t> positions(elements);
  std::iota(positions.begin(), positions.end(), 0);
  const std::size_t bytes = positions.size() * kElementBytes;
  void* memory = nullptr;
  Check(aclrtMalloc(&memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");
  Check(aclrtMemcpy(memory, bytes, positions.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE), "aclrtMemcpy");
  return memory;
}

// A node's operands and plan. It lives as long as the process.
struct Node {
  std::array<aclTensor*, 4> tensors;  // gradOutput, self, indices, gradInput
  aclOpExecutor* executor;
};

Node MakeNode(const std::array<std::int64_t, 5>& dims, void* memory) {
  Node node{};
  for (std::size_t i = 0; i < node.tensors.size(); ++i) {
    node.tensors[i] = aclCreateTensor(dims.data(), dims.size(), kTypes[i], nullptr, 0, ACL_FORMAT_NCDHW, dims.data(),
                                      dims.size(), memory);
  }
  std::uint64_t workspace_size = 0;
  Check(aclnnMaxPool3dWithArgmaxBackwardGetWorkspaceSize(node.tensors[0], node.tensors[1], node.tensors[2], Triple(1),
                                                         Triple(1), Triple(0), Triple(1), false, node.tensors[3],
                                                         &workspace_size, &node.executor),
        "phase 1");
  Check(aclSetAclOpExecutorRepeatable(node.executor), "aclSetAclOpExecutorRepeatable");
  return node;
}

aclrtStream stream = nullptr;
std::vector<Node> nodes;
void* x = nullptr;  // which all nodes read, and the argmax
void* argmax = nullptr;
std::vector<void*> values;  // what the first node reads, and for each node one that it may write

void CallNode(const Node& node, void* read, void* written) {
  std::int32_t device = -1;
  Check(aclrtGetDevice(&device), "aclrtGetDevice");
  const std::array<void*, 4> memory = {read, x, argmax, written};
  for (std::size_t i = 0; i < node.tensors.size(); ++i) {
    Check(aclSetTensorAddr(node.executor, i, node.tensors[i], memory[i]), "aclSetTensorAddr");
  }
  Check(aclnnMaxPool3dWithArgmaxBackward(nullptr, 0, node.executor, stream), "phase 2");
}

}  // namespace

extern "C" {

// Called once, first of all: makes `count` nodes with windows of one element over planes of `height` by `width`
// elements. Ends the process where a call fails.
void MakeNodes(int count, std::int64_t height, std::int64_t width) {
  Check(aclInit(nullptr), "aclInit");  // the provider, which comes later, takes it that somebody did this
  Check(aclrtSetDevice(0), "aclrtSetDevice");
  Check(aclrtCreateStream(&stream), "aclrtCreateStream");
  const std::int64_t elements = height * width;
  x = MakeMemory(elements);
  argmax = MakeMemory(elements);
  values.push_back(MakeMemory(elements));
  while (nodes.size() < static_cast<std::size_t>(count)) {
    values.push_back(MakeMemory(elements));
    nodes.push_back(MakeNode({1, 1, 1, height, width}, values[0]));
  }
}

// The calls of `runs` Runs of the first `count` nodes, which lie side by side (`parallel`), each with a result of its
// own, or in a chain, in which two results take turns in memory behind what is fed. Where the device shares the host's
// memory, the stream is waited for after each node, else once at the end of a Run.
void CallNodes(int count, int runs, bool parallel, bool waits_for_each) {
  const auto place = [&](int value) { return value == 0 || parallel ? value : 1 + value % 2; };
  for (int run = 0; run < runs; ++run) {
    for (int i = 0; i < count; ++i) {
      CallNode(nodes[i], values[place(parallel ? 0 : i)], values[place(i + 1)]);
      if (waits_for_each) Check(aclrtSynchronizeStream(stream), "aclrtSynchronizeStream");
    }
    if (!waits_for_each) Check(aclrtSynchronizeStream(stream), "aclrtSynchronizeStream");
  }
}
}
