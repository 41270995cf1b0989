// SPDX-License-Identifier: Apache-2.0
#include "ops/mpi/mpi_module.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <string_view>

#include "core/base/error.h"
#include "ops/bootstrap/address/start_error.h"
#include "rueda/version.h"

namespace rueda {
namespace {

[[noreturn]] void cannot_use(const std::string& path, const std::string& why) {
  const std::string words = why.starts_with(path) ? why : path + ": " + why;
  cannot_start(fmt::format(
      "this job runs over MPI, and Rueda's library for MPI cannot be used: {}. Build Rueda {} with "
      "-DRUEDA_MPI=ON and install all its libraries into one folder. If MPI's own library is missing, "
      "name its folder in LD_LIBRARY_PATH. Without MPI, set RUEDA_BOOTSTRAP=pmi under mpiexec, or "
      "RUEDA_STORE=HOST:PORT.",
      words, kVersion));
}

// The folder of the library that this function is in, as the loader found it.
std::string own_folder() {
  Dl_info own{};
  if (::dladdr(reinterpret_cast<const void*>(&load_mpi_module), &own) == 0) return ".";
  const std::string_view path = own.dli_fname;
  const std::size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? "." : path.substr(0, slash));
}

}  // namespace

const MpiModule& load_mpi_module(const std::string& path) {
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) cannot_use(path, ::dlerror());
  const auto function = reinterpret_cast<MpiModuleFunction>(::dlsym(library, kMpiModuleSymbol));
  if (function == nullptr) cannot_use(path, fmt::format("it has no {}", kMpiModuleSymbol));
  const MpiModule& module = *function();
  if (std::string_view(module.version) != kVersion)
    cannot_use(path, fmt::format("it is of version {}, and librueda of {}", module.version, kVersion));
  return module;
}

const MpiModule& mpi_module() {
  static const MpiModule& module = load_mpi_module(own_folder() + "/librueda_mpi.so");
  return module;
}

bool has_mpi_module() {
  try {
    mpi_module();
    return true;
  } catch (const BackendError&) {
    return false;
  }
}

}  // namespace rueda
