// The versions of CANN's packages.
#ifndef POOLGRAD_ACLNN_PACKAGES_H_
#define POOLGRAD_ACLNN_PACKAGES_H_

#include <string>
#include <vector>

#include "aclnn/api.h"

namespace poolgrad::aclnn {

struct Package {
  std::string name;  // as CANN's installer has it
  std::string version;
};

// The packages of the libraries that are opened here and the driver under them, as far as the release tells.
std::vector<Package> InstalledPackages(const Api& api);

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_PACKAGES_H_
