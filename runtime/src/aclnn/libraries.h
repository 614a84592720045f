// SPDX-License-Identifier: Apache-2.0

// The paths of the libraries of the aclnn C API for each backend, and functions to open them.
#ifndef POOLGRAD_ACLNN_LIBRARIES_H_
#define POOLGRAD_ACLNN_LIBRARIES_H_

#include <filesystem>
#include <string>
#include <vector>

#include "aclnn/discovery.h"

namespace poolgrad::aclnn {

struct LibraryPaths {
  std::filesystem::path runtime;                 // acl*, aclrt*
  std::filesystem::path base;                    // aclCreateTensor and similar functions
  std::vector<std::filesystem::path> operators;  // aclnn*, in the order in which they are searched
};

// The host implementation: one library, in the folder of the library that holds this code.
LibraryPaths HostLibraryPaths();

// The installed CANN toolkit, found by the variables that its set_env.sh exports (ASCEND_HOME_PATH,
// ASCEND_OPP_PATH, ASCEND_CUSTOM_OPP_PATH); relative paths in them are ignored. Libraries that must not be opened are
// recorded in `found`. Throws std::runtime_error, which names what is missing and the folder.
LibraryPaths CannLibraryPaths(Discovery& found);

// Opens a library for the life of the process: CANN's libraries register exit handlers and thread-local
// destructors, so they must not be unloaded. Throws std::runtime_error with the loader's reason.
void* OpenLibrary(const std::filesystem::path& path);

// The address of a symbol in the library or its dependencies, or null.
void* FindSymbol(void* library, const char* name);

// The address of a symbol that the library itself defines, or null.
void* FindOwnSymbol(void* library, const char* name);

}  // namespace poolgrad::aclnn

#endif  // POOLGRAD_ACLNN_LIBRARIES_H_
