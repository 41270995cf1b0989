// SPDX-License-Identifier: Apache-2.0
#include "ops/nccl/nccl_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace rueda {
namespace {

constexpr const char* kSoname = "libnccl.so.2";
constexpr int kLeastVersion = 21400;  // communicators that do not block

std::string words_of(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string remedy() {
  return fmt::format("install NCCL {} or newer, and put its folder into LD_LIBRARY_PATH",
                     words_of(kLeastVersion));
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
  const std::string built_for = fmt::format("{}/{}", RUEDA_NCCL_BESIDE_TORCH, kSoname);
  if (std::ranges::find(found, built_for) == found.end()) found.push_back(built_for);
  return found;
}

// Skips candidates that are no NCCL. If none is left, `problem` has words on each.
void* open_library(std::span<const std::string> candidates, std::string& problem) {
  constexpr const char* kEvery = "ncclGetVersion";
  for (const std::string& candidate : candidates) {
    void* const library = ::dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr && ::dlsym(library, kEvery) != nullptr) return library;
    const std::string words = library == nullptr
                                  ? ::dlerror()
                                  : fmt::format("{} is of version unknown and lacks {}", candidate, kEvery);
    problem += (problem.empty() ? "" : "; ") + words;
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

// Why it cannot be used; empty if it can.
std::string problem_of(const NcclLibrary& nccl, const std::string& missing) {
  if (missing.empty() && nccl.version >= kLeastVersion) return {};
  const std::string version = nccl.version > 0 ? words_of(nccl.version) : "unknown";
  return fmt::format("{} is of version {}{}; {}", nccl.path, version,
                     missing.empty() ? "" : fmt::format(" and lacks {}", missing), remedy());
}

}  // namespace

NcclLibrary load_nccl(std::span<const std::string> candidates) {
  NcclLibrary nccl;
  std::string trouble;
  void* const library = open_library(candidates, trouble);
  if (library == nullptr) {
    nccl.problem = fmt::format("{}; {}", trouble, remedy());
    return nccl;
  }
  const std::string missing = look_up(library, nccl.functions);
  if (nccl.functions.get_version != nullptr) nccl.functions.get_version(&nccl.version);
  link_map* map = nullptr;
  if (::dlinfo(library, RTLD_DI_LINKMAP, static_cast<void*>(&map)) == 0) nccl.path = map->l_name;
  nccl.problem = problem_of(nccl, missing);
  return nccl;
}

const NcclLibrary& nccl_library() {
  static const NcclLibrary library = [] {
    std::vector<std::string> candidates = beside_torch();
    candidates.insert(candidates.begin(), kSoname);
    return load_nccl(candidates);
  }();
  return library;
}

int nccl_header_version() { return NCCL_VERSION_CODE; }

std::string nccl_report() {
  const NcclLibrary& nccl = nccl_library();
  const std::string built = words_of(nccl_header_version());
  if (!nccl.problem.empty()) return fmt::format("{} (library: {})", built, nccl.problem);
  std::string words = fmt::format("library {}, {}", words_of(nccl.version), nccl.path);
  // Here nothing has loaded torch's.
  for (const std::string& candidate : beside_torch()) {
    const NcclLibrary other = load_nccl({&candidate, 1});
    if (other.problem.empty() && other.path != nccl.path)
      words += fmt::format("; with torch {}, {}", words_of(other.version), other.path);
  }
  return fmt::format("{} ({})", built, words);
}

}  // namespace rueda
