// SPDX-License-Identifier: Apache-2.0
#include "ops/nccl/nccl_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <string_view>
#include <vector>

namespace rueda {
namespace {

constexpr const char* kSoname = "libnccl.so.2";
constexpr int kLeastVersion = 21400;  // communicators that do not block

std::string words_of(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

// The wheels of torch keep NCCL in nvidia/nccl/lib, beside torch/lib.
std::vector<std::string> beside_torch() {
  std::vector<std::string> found;
  dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* data) {
        constexpr std::string_view kTorch = "/torch/lib/libtorch_cpu.so";
        const std::string_view path = object->dlpi_name;
        if (path.ends_with(kTorch)) {
          const std::string packages(path.substr(0, path.size() - kTorch.size()));
          static_cast<std::vector<std::string>*>(data)->push_back(packages + "/nvidia/nccl/lib/" + kSoname);
        }
        return 0;
      },
      &found);
  found.push_back(fmt::format("{}/{}", RUEDA_NCCL_BESIDE_TORCH, kSoname));
  return found;
}

void* open_library(std::string& problem) {
  if (void* loaded = ::dlopen(kSoname, RTLD_NOW | RTLD_NOLOAD)) return loaded;
  if (void* system = ::dlopen(kSoname, RTLD_NOW | RTLD_LOCAL)) return system;
  problem = ::dlerror();
  for (const std::string& path : beside_torch()) {
    if (void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

// Purpose: looks up functions until one is missing.
struct Lookup {
  void* library;
  std::string missing;

  template <class Function>
  void operator()(Function& function, const char* name) {
    function = reinterpret_cast<Function>(::dlsym(library, name));
    if (function == nullptr && missing.empty()) missing = name;
  }
};

std::string look_up(void* library, NcclFunctions& f) {
  Lookup look{library, {}};
  look(f.get_version, "ncclGetVersion");
  look(f.get_error_string, "ncclGetErrorString");
  look(f.get_last_error, "ncclGetLastError");
  look(f.get_unique_id, "ncclGetUniqueId");
  look(f.comm_init_rank_config, "ncclCommInitRankConfig");
  look(f.comm_get_async_error, "ncclCommGetAsyncError");
  look(f.comm_finalize, "ncclCommFinalize");
  look(f.comm_destroy, "ncclCommDestroy");
  look(f.comm_abort, "ncclCommAbort");
  look(f.red_op_create_pre_mul_sum, "ncclRedOpCreatePreMulSum");
  look(f.red_op_destroy, "ncclRedOpDestroy");
  look(f.group_start, "ncclGroupStart");
  look(f.group_end, "ncclGroupEnd");
  look(f.all_reduce, "ncclAllReduce");
  look(f.reduce, "ncclReduce");
  look(f.reduce_scatter, "ncclReduceScatter");
  look(f.all_gather, "ncclAllGather");
  look(f.broadcast, "ncclBroadcast");
  look(f.send, "ncclSend");
  look(f.recv, "ncclRecv");
  Lookup newer{library, {}};
  newer(f.mem_alloc, "ncclMemAlloc");
  newer(f.mem_free, "ncclMemFree");
  newer(f.window_register, "ncclCommWindowRegister");
  newer(f.window_deregister, "ncclCommWindowDeregister");
  return look.missing;
}

NcclLibrary load() {
  NcclLibrary nccl;
  void* const library = open_library(nccl.problem);
  if (library == nullptr) return nccl;
  nccl.problem.clear();
  const std::string missing = look_up(library, nccl.functions);
  Dl_info info{};
  if (nccl.functions.get_version != nullptr) {
    ::dladdr(reinterpret_cast<void*>(nccl.functions.get_version), &info);
    nccl.functions.get_version(&nccl.version);
  }
  nccl.path = info.dli_fname != nullptr ? info.dli_fname : kSoname;
  if (!missing.empty() || nccl.version < kLeastVersion) {
    nccl.problem =
        fmt::format("{} is version {}, at least {} is needed{}", nccl.path, words_of(nccl.version),
                    words_of(kLeastVersion), missing.empty() ? "" : fmt::format(" ({} is missing)", missing));
  }
  return nccl;
}

}  // namespace

const NcclLibrary& nccl_library() {
  static const NcclLibrary library = load();
  return library;
}

int nccl_header_version() { return NCCL_VERSION_CODE; }

std::string nccl_report() {
  const NcclLibrary& nccl = nccl_library();
  const std::string built = words_of(nccl_header_version());
  if (!nccl.problem.empty()) return fmt::format("{} (library: {})", built, nccl.problem);
  return fmt::format("{} (library {}, {})", built, words_of(nccl.version), nccl.path);
}

}  // namespace rueda
