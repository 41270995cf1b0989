// SPDX-License-Identifier: Apache-2.0
// NCCL, loaded when it is needed: programs that never touch a device do not carry it, and one that has loaded
// torch's uses that one.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <span>
#include <string>

namespace rueda {

// Purpose: the functions of NCCL that Rueda calls, by the names that NCCL gives them. Filled in once; a test
// puts its own in their place.
struct NcclFunctions {
  decltype(&::ncclGetVersion) get_version = nullptr;
  decltype(&::ncclGetErrorString) get_error_string = nullptr;
  decltype(&::ncclGetLastError) get_last_error = nullptr;
  decltype(&::ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&::ncclCommInitRankConfig) comm_init_rank_config = nullptr;
  decltype(&::ncclCommGetAsyncError) comm_get_async_error = nullptr;
  decltype(&::ncclCommFinalize) comm_finalize = nullptr;
  decltype(&::ncclCommDestroy) comm_destroy = nullptr;
  decltype(&::ncclCommAbort) comm_abort = nullptr;
  decltype(&::ncclRedOpCreatePreMulSum) red_op_create_pre_mul_sum = nullptr;
  decltype(&::ncclRedOpDestroy) red_op_destroy = nullptr;
  decltype(&::ncclGroupStart) group_start = nullptr;
  decltype(&::ncclGroupEnd) group_end = nullptr;
  decltype(&::ncclAllReduce) all_reduce = nullptr;
  decltype(&::ncclReduce) reduce = nullptr;
  decltype(&::ncclReduceScatter) reduce_scatter = nullptr;
  decltype(&::ncclAllGather) all_gather = nullptr;
  decltype(&::ncclBroadcast) broadcast = nullptr;
  decltype(&::ncclSend) send = nullptr;
  decltype(&::ncclRecv) recv = nullptr;
  // Of newer versions than the least; null where it has none. Their types are ours: an older nccl.h knows
  // none.
  using Window = void*;  // ncclWindow_t
  ncclResult_t (*mem_alloc)(void** block, std::size_t bytes) = nullptr;
  ncclResult_t (*mem_free)(void* block) = nullptr;
  ncclResult_t (*window_register)(ncclComm_t, void* memory, std::size_t bytes, Window*, int flags) = nullptr;
  ncclResult_t (*window_deregister)(ncclComm_t, Window) = nullptr;

  bool has_windows() const { return window_register != nullptr && window_deregister != nullptr; }
};

// Purpose: the library of this process. Never unloaded.
struct NcclLibrary {
  NcclFunctions functions;
  int version = 0;
  std::string path;
  std::string problem;  // why it cannot be used, or empty
};

// The first of these that there is: paths, or names, of which the loader knows where they are and whether
// they are in the process already.
NcclLibrary load_nccl(std::span<const std::string> candidates);
// Loads it at the first call: the one that is in the process already, else the system's, else the one that
// lies beside torch.
const NcclLibrary& nccl_library();

// Of nccl.h.
int nccl_header_version();
// "2.28.9 (library 2.28.9, /usr/lib/libnccl.so.2)"; a program that has torch's in it takes that one, which is
// then named behind it.
std::string nccl_report();

}  // namespace rueda
