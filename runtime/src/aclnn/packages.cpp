// SPDX-License-Identifier: Apache-2.0

#include "aclnn/packages.h"

#include <array>

namespace poolgrad::aclnn {
namespace {

constexpr std::size_t kMaxVersion = 128;  // ACL_PKG_VERSION_MAX_SIZE

}  // namespace

std::vector<Package> InstalledPackages(const Api& api) {
  std::vector<Package> packages;
  if (api.aclsysGetVersionStr == nullptr) return packages;
  for (std::string name : {"runtime", "opbase", "ops_nn", "driver"}) {
    std::array<char, kMaxVersion + 1> version{};
    if (api.aclsysGetVersionStr(name.data(), version.data()) == ACL_SUCCESS) {
      packages.push_back({name, version.data()});
    }
  }
  return packages;
}

}  // namespace poolgrad::aclnn
