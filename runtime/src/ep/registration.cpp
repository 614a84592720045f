// SPDX-License-Identifier: Apache-2.0

#include "ep/registration.h"

#include <dlfcn.h>
#include <link.h>

#include <mutex>
#include <new>
#include <set>
#include <string>
#include <vector>

#include "ep/registry.h"

namespace poolgrad::ep {
namespace {

struct Registered {
  std::mutex mutex;
  std::set<const ort::OrtApi*> apis;
};

Registered& OfThisCopy() {
  static auto* const registered = new Registered;  // never destroyed: factories may be released late
  return *registered;
}

std::vector<std::string> LoadedLibraries() {
  std::vector<std::string> paths;
  const auto append = [](dl_phdr_info* info, std::size_t, void* into) noexcept {
    try {
      static_cast<std::vector<std::string>*>(into)->emplace_back(info->dlpi_name);
      return 0;
    } catch (...) {
      return 1;  // ends the iteration
    }
  };
  if (dl_iterate_phdr(append, &paths) != 0) throw std::bad_alloc();
  return paths;
}

// Whether the loaded library is a copy of this one with a registration.
bool HoldsRegistration(const std::string& path, const ort::OrtApi* api) {
  const std::unique_ptr<void, int (*)(void*)> library(dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD), dlclose);
  if (library == nullptr) return false;
  const auto is_registered =
      reinterpret_cast<bool (*)(const ort::OrtApi*)>(dlsym(library.get(), "PoolgradIsRegistered"));
  return is_registered != nullptr && is_registered(api);
}

}  // namespace

Registration::Registration(const ort::OrtApi& api) : api_(&api) {
  for (const std::string& path : LoadedLibraries()) {
    if (path.empty() || !HoldsRegistration(path, api_)) continue;  // the program itself has no path
    throw Error(ort::ORT_FAIL, std::string(kProviderName) + " is registered with this onnxruntime already, from " +
                                   path + "; register its library once, under one name");
  }
  Registered& registered = OfThisCopy();
  const std::lock_guard<std::mutex> lock(registered.mutex);
  registered.apis.insert(api_);
}

Registration::~Registration() {
  Registered& registered = OfThisCopy();
  const std::lock_guard<std::mutex> lock(registered.mutex);
  registered.apis.erase(api_);
}

bool IsRegistered(const ort::OrtApi* api) {
  Registered& registered = OfThisCopy();
  const std::lock_guard<std::mutex> lock(registered.mutex);
  return registered.apis.count(api) != 0;
}

}  // namespace poolgrad::ep
