// SPDX-License-Identifier: Apache-2.0

// The libraries, symbols and operators of a backend that were found, and those that are missing, for reports.
#ifndef POOLGRAD_ACLNN_DISCOVERY_H_
#define POOLGRAD_ACLNN_DISCOVERY_H_

#include <filesystem>
#include <string>
#include <vector>

namespace poolgrad::aclnn {

struct FoundLibrary {
  std::filesystem::path path;
  std::string problem;  // why it is not used; empty if it is used
};

struct FoundOperator {
  std::string name;               // of phase 2
  std::filesystem::path library;  // empty if no library has both phases
};

struct Discovery {
  std::vector<FoundLibrary> libraries;
  std::vector<FoundOperator> operators;
  std::vector<std::string> missing_symbols;  // of acl and of the aclnn base that are not optional
};

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_DISCOVERY_H_
