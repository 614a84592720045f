// SPDX-License-Identifier: Apache-2.0

#include "host/mode.h"

#include <cstdlib>
#include <string_view>

namespace poolgrad::host {
namespace {

std::string_view Setting() {
  const char* setting = std::getenv("ACLNN_HOST_STRICT");
  return setting != nullptr ? setting : "";
}

}  // namespace

bool StrictIsAskedFor() { return Setting() == "1"; }

Status ReadMode() {
  const std::string_view setting = Setting();
  if (!setting.empty() && setting != "0" && setting != "1") {
    return Fail(ACL_ERROR_INVALID_PARAM, "ACLNN_HOST_STRICT is \"", setting,
                "\"; set it to 1 for the strict mode, or leave it unset");
  }
  strict_mode = StrictIsAskedFor();
  return {};
}

}  // namespace poolgrad::host
