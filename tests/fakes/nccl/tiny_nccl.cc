// SPDX-License-Identifier: Apache-2.0
// A library with the names of NCCL's functions, for tests of loading one; none but the first can be called.
// Built several times, as TINY_NCCL_VERSION; TINY_NCCL_LACKS leaves one out.
#define TINY_NCCL_EXPORT extern "C" __attribute__((visibility("default")))
#define TINY_NCCL_FUNCTION(name) \
  TINY_NCCL_EXPORT int name() { return 1; }

TINY_NCCL_EXPORT int ncclGetVersion(int* version) {
  *version = TINY_NCCL_VERSION;
  return 0;
}

TINY_NCCL_FUNCTION(ncclGetErrorString)
TINY_NCCL_FUNCTION(ncclGetLastError)
TINY_NCCL_FUNCTION(ncclGetUniqueId)
TINY_NCCL_FUNCTION(ncclCommInitRankConfig)
TINY_NCCL_FUNCTION(ncclCommGetAsyncError)
TINY_NCCL_FUNCTION(ncclCommFinalize)
TINY_NCCL_FUNCTION(ncclCommDestroy)
TINY_NCCL_FUNCTION(ncclCommAbort)
TINY_NCCL_FUNCTION(ncclRedOpCreatePreMulSum)
TINY_NCCL_FUNCTION(ncclRedOpDestroy)
TINY_NCCL_FUNCTION(ncclGroupStart)
TINY_NCCL_FUNCTION(ncclGroupEnd)
TINY_NCCL_FUNCTION(ncclAllReduce)
TINY_NCCL_FUNCTION(ncclReduce)
TINY_NCCL_FUNCTION(ncclReduceScatter)
#ifndef TINY_NCCL_LACKS
TINY_NCCL_FUNCTION(ncclAllGather)
#endif
TINY_NCCL_FUNCTION(ncclBroadcast)
TINY_NCCL_FUNCTION(ncclSend)
TINY_NCCL_FUNCTION(ncclRecv)
