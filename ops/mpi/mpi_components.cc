// SPDX-License-Identifier: Apache-2.0
#include "ops/mpi/mpi_components.h"

#include <dlfcn.h>
#include <link.h>

#include <string>
#include <string_view>
#include <vector>

#include "ops/mpi/mpi_module.h"

namespace rueda {
namespace {

using Initialized = int (*)(int*);

// libmpi.so.12, libmpich.so.12 and others, among the libraries of this process.
std::vector<std::string> loaded_libraries_of_mpi() {
  std::vector<std::string> found;
  dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* data) {
        const std::string_view path = object->dlpi_name;
        const std::string_view file = path.substr(path.rfind('/') + 1);
        if (file.starts_with("libmpi")) static_cast<std::vector<std::string>*>(data)->emplace_back(path);
        return 0;
      },
      &found);
  return found;
}

// Loads nothing. A module of Python keeps the symbols of its libraries to itself, so they are looked at, too.
Initialized find_initialized() {
  constexpr const char* kName = "MPI_Initialized";
  if (void* const symbol = ::dlsym(RTLD_DEFAULT, kName)) return reinterpret_cast<Initialized>(symbol);
  for (const std::string& path : loaded_libraries_of_mpi()) {
    void* const library = ::dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) continue;
    void* const symbol = ::dlsym(library, kName);
    ::dlclose(library);
    if (symbol != nullptr) return reinterpret_cast<Initialized>(symbol);
  }
  return nullptr;
}

}  // namespace

bool mpi_has_begun() {
  const Initialized ask = find_initialized();
  int initialized = 0;
  return ask != nullptr && ask(&initialized) == 0 && initialized != 0;
}

RuntimeComponents mpi_components(const Config& config, const std::vector<Rank>& ranks) {
  return mpi_module().components(config, ranks);
}

}  // namespace rueda
