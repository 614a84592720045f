// SPDX-License-Identifier: Apache-2.0

// Writes messages to a logger of onnxruntime.
#ifndef POOLGRAD_EP_LOGGER_H_
#define POOLGRAD_EP_LOGGER_H_

#include <string>

#include "abi/ort.h"

namespace poolgrad::ep {

class Logger {
 public:
  Logger(const ort::OrtApi& api, const ort::OrtLogger* logger) : api_(api), logger_(logger) {}

  void Info(const std::string& message) const { Log(ort::ORT_LOGGING_LEVEL_INFO, message); }
  void Error(const std::string& message) const { Log(ort::ORT_LOGGING_LEVEL_ERROR, message); }

 private:
  void Log(ort::OrtLoggingLevel level, const std::string& message) const {
    ort::OrtStatus* status =
        api_.Logger_LogMessage(logger_, level, message.c_str(), "poolgrad_ep", 0, "AclnnExecutionProvider");
    if (status != nullptr) api_.ReleaseStatus(status);  // a message that cannot be logged is not an error
  }

  const ort::OrtApi& api_;
  const ort::OrtLogger* logger_;
};

}  // namespace poolgrad::ep

#endif  // POOLGRAD_EP_LOGGER_H_
