// SPDX-License-Identifier: Apache-2.0

// The versions of CANN's packages.
#ifndef POOLGRAD_ACLNN_PACKAGES_H_
#define POOLGRAD_ACLNN_PACKAGES_H_

#include <string>
#include <vector>

#include "aclnn/api.h"

namespace poolgrad::aclnn {

struct Package {
  std::string name;  // that CANN's installer uses
  std::string version;
};

// The packages of the libraries that are opened here, and the driver. Leaves out those whose version is not known.
std::vector<Package> InstalledPackages(const Api& api);

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_PACKAGES_H_
