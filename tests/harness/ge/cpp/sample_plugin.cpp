// SPDX-License-Identifier: Apache-2.0

// A plugin whose callbacks do one thing each, to test the driver.

#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include "graph.h"
#include "register.h"

namespace {

// One attribute of each type, the node's JSON text, and formats for the first tensors and a tensor that is not there.
domi::Status Echo(const ge::Operator& source, ge::Operator& made) {
  ge::AscendString text;
  if (source.GetAttr("attribute", text) != ge::GRAPH_SUCCESS) return ge::GRAPH_FAILED;
  ge::AscendString type;
  source.GetAttr("op_type", type);
  made.SetAttr("flag", true).SetAttr("number", int64_t{-7}).SetAttr("text", text).SetAttr("op_type", type);
  made.SetAttr("list", std::vector<int64_t>{3, 0});
  ge::TensorDesc in = made.GetInputDesc(0);
  in.SetFormat(static_cast<ge::Format>(30));
  in.SetOriginFormat(static_cast<ge::Format>(27));
  made.SetAttr("known", made.UpdateInputDesc("x", in) == ge::GRAPH_SUCCESS);
  made.SetAttr("unknown", made.UpdateInputDesc("z", in) == ge::GRAPH_SUCCESS);
  ge::TensorDesc out = made.GetOutputDesc(0);
  out.SetFormat(static_cast<ge::Format>(0));
  made.UpdateOutputDesc("y", out);
  return ge::GRAPH_SUCCESS;
}

domi::Status Fail(const ge::Operator&, ge::Operator&) {
  std::fprintf(stderr, "refused\n");
  std::printf("and said so\n");
  return ge::GRAPH_FAILED;
}

domi::Status Throw(const ge::Operator&, ge::Operator&) { throw std::runtime_error("left the callback"); }
domi::Status Crash(const ge::Operator&, ge::Operator&) { std::abort(); }

domi::OpRegistrationData Sample(const char* type, const char* key, const domi::ParseParamByOpFunc& parse) {
  return domi::OpRegistrationData(type)
      .FrameworkType(domi::ONNX)
      .OriginOpType(std::vector<ge::AscendString>{key})
      .ParseParamsByOperatorFn(parse)
      .ImplyType(static_cast<domi::ImplyType>(1));
}

domi::OpRegistrationData echo = Sample("Echo", "sample::1::Echo", Echo);
domi::OpRegistrationData again = Sample("Second", "sample::1::Echo", Fail);
domi::OpRegistrationData fail = Sample("Fail", "sample::1::Fail", Fail);
domi::OpRegistrationData thrown = Sample("Throw", "sample::1::Throw", Throw);
domi::OpRegistrationData crash = Sample("Crash", "sample::1::Crash", Crash);
domi::OpReceiver receivers[] = {echo, again, fail, thrown, crash};

}  // namespace
