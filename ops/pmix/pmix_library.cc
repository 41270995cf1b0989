// SPDX-License-Identifier: Apache-2.0
#include "ops/pmix/pmix_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "ops/bootstrap/address/start_error.h"

namespace rueda {
namespace {

constexpr const char* kLibraryOfPmix = "libpmix.so.2";

[[noreturn]] void cannot_load(const char* why) {
  cannot_start(
      fmt::format("a launcher that speaks PMIx has started this process, and its library cannot be used: {}. "
                  "Install it (Debian: libpmix2) on every host, start the job by ruedarun, or set "
                  "RUEDA_STORE=HOST:PORT.",
                  why));
}

template <class Function>
void look_up(void* file, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(file, name));
  if (function == nullptr) cannot_load(fmt::format("{} lacks {}", kLibraryOfPmix, name).c_str());
}

PmixLibrary load_pmix() {
  void* const file = ::dlopen(kLibraryOfPmix, RTLD_NOW | RTLD_LOCAL);
  if (file == nullptr) cannot_load(::dlerror());
  PmixLibrary library;
  look_up(file, "PMIx_Init", library.init);
  look_up(file, "PMIx_Finalize", library.finalize);
  look_up(file, "PMIx_Put", library.put);
  look_up(file, "PMIx_Commit", library.commit);
  look_up(file, "PMIx_Get", library.get);
  look_up(file, "PMIx_Get_nb", library.get_later);
  look_up(file, "PMIx_Error_string", library.words);
  return library;
}

}  // namespace

const PmixLibrary& pmix_library() {
  static const PmixLibrary loaded = load_pmix();
  return loaded;
}

}  // namespace rueda
