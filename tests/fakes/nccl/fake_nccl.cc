// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/nccl/fake_nccl.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "tests/fakes/nccl/fake_nccl_round.h"
#include "tests/support/conformance/values.h"

// NCCL names it, and leaves it to the library.
struct ncclComm {
  std::shared_ptr<rueda::FakeClique> clique;
  int rank = 0;
  std::size_t rounds = 0;
  std::vector<rueda::FakeCall> pending;  // of the round that a look is to begin
  cudaStream_t stream = nullptr;
  std::vector<double> factors;  // of operators that were made
  bool aborted = false;
  void** registering = nullptr;  // filled in by the next look
  bool finalizing = false;
  std::vector<std::weak_ptr<void>> graphs;  // that hold calls of it

  bool held() const {
    return std::ranges::any_of(graphs, [](const auto& graph) { return !graph.expired(); });
  }
};

namespace rueda {
namespace {

FakeNccl* present = nullptr;
thread_local std::vector<std::pair<ncclComm_t, FakeCall>> group;

constexpr std::pair<ncclDataType_t, DataType> kTypes[] = {
    {ncclInt8, DataType::int8},       {ncclUint8, DataType::uint8},       {ncclInt32, DataType::int32},
    {ncclInt64, DataType::int64},     {ncclFloat16, DataType::float16},   {ncclFloat32, DataType::float32},
    {ncclFloat64, DataType::float64}, {ncclBfloat16, DataType::bfloat16},
};

DataType type_of(ncclDataType_t type) {
  return std::ranges::find(kTypes, type, &std::pair<ncclDataType_t, DataType>::first)->second;
}

std::string op_name(int op) {
  static const std::vector<std::string> kNames{"sum", "prod", "max", "min", "avg"};
  return op < ncclNumOps ? kNames.at(static_cast<std::size_t>(op)) : "scaled sum";
}

}  // namespace

// Purpose: NCCL's functions, as the table wants them.
struct FakeNcclCalls {
  static bool fails(const std::string& call, int rank) {
    const auto found = present->failing_.find(rank);
    return found != present->failing_.end() && found->second == call;
  }
  static ncclResult_t note(ncclComm_t comm, const std::string& call, const std::string& with = "") {
    std::lock_guard lock(present->mutex_);
    present->calls_[comm->rank].push_back(call + "(" + with + ")");
    return fails(call, comm->rank) ? ncclSystemError : ncclSuccess;
  }

  static ncclResult_t get_version(int* version) { return *version = NCCL_VERSION_CODE, ncclSuccess; }
  static const char* get_error_string(ncclResult_t rc) {
    return rc == ncclSystemError ? "system error" : "ok";
  }
  static const char* get_last_error(ncclComm_t) { return "as the test wants"; }
  static ncclResult_t get_unique_id(ncclUniqueId* id) {
    std::lock_guard lock(present->mutex_);
    std::memset(id->internal, 0, sizeof id->internal);
    std::snprintf(id->internal, sizeof id->internal, "clique %d", present->next_id_++);
    return fails("ncclGetUniqueId", 0) ? ncclSystemError : ncclSuccess;
  }

  static ncclResult_t init(ncclComm_t* comm, int size, ncclUniqueId id, int rank, ncclConfig_t* config) {
    auto made = std::make_unique<ncclComm>();
    made->rank = rank;
    *comm = made.get();
    {
      std::lock_guard lock(present->mutex_);
      std::shared_ptr<FakeClique>& clique = present->cliques_[id.internal];
      if (!clique) clique = std::make_shared<FakeClique>();
      clique->size = size;
      ++clique->connected;
      made->clique = clique;
      present->comms_.push_back(std::move(made));
    }
    const ncclResult_t rc = note(*comm, "ncclCommInitRankConfig", fmt::format("{} of {}", rank, size));
    if (config->blocking != 0) return ncclInvalidArgument;
    return rc == ncclSuccess ? ncclInProgress : rc;
  }

  // A round begins with the first look at its communicator, not when it is asked for.
  static ncclResult_t get_async_error(ncclComm_t comm, ncclResult_t* state) {
    std::unique_lock lock(present->mutex_);
    const bool connecting = comm->clique->connected < comm->clique->size;
    *state = connecting || comm->stream != nullptr ? ncclInProgress : ncclSuccess;
    if (fails("async", comm->rank)) *state = ncclSystemError;
    if (comm->finalizing && comm->held()) *state = ncclInProgress;
    if (comm->registering != nullptr) {
      *std::exchange(comm->registering, nullptr) = comm->clique->windows[comm->rank].back().memory;
      *state = ncclInProgress;
      return ncclSuccess;
    }
    if (connecting || comm->stream == nullptr) return ncclSuccess;
    std::vector<FakeCall> calls = std::exchange(comm->pending, {});
    const auto held = std::make_shared<char>();  // by the graph, if it becomes a part of one
    comm->graphs.emplace_back(held);
    const cudaStream_t stream = std::exchange(comm->stream, nullptr);
    lock.unlock();  // the device has a lock of its own, and calls us
    FakeDevice::of(stream).give_made(stream, [comm, calls, held] { return begin_round(comm, calls); });
    return ncclSuccess;
  }
  // In a graph whenever that runs.
  static std::vector<FakeDevice::Task> begin_round(ncclComm_t comm, const std::vector<FakeCall>& calls) {
    const std::lock_guard lock(present->mutex_);
    const std::size_t number = comm->rounds++;
    std::vector<FakeRound>& rounds = comm->clique->rounds;
    if (rounds.size() <= number) rounds.resize(number + 1);
    auto done = std::make_shared<FakeDevice::Point>();
    if (comm->aborted) done->passed = true;
    rounds[number].calls[comm->rank] = calls;
    rounds[number].done[comm->rank] = done;
    return {{[comm, number] { arrive(comm, number); }, nullptr}, {{}, done}};
  }
  static void arrive(ncclComm_t comm, std::size_t number) {
    std::lock_guard lock(present->mutex_);
    FakeClique& clique = *comm->clique;
    FakeRound& round = clique.rounds[number];
    if (++round.arrived < static_cast<std::size_t>(clique.size) || present->hangs_ || clique.aborted) return;
    run_round(clique, round, comm->factors);
    for (auto& [rank, done] : round.done) done->passed = true;
  }

  static ncclResult_t mem_alloc(void** block, std::size_t bytes) {
    std::lock_guard lock(present->mutex_);
    const auto memory = present->memory_.memory(bytes);
    *block = memory.get();
    present->blocks_[*block] = memory;
    return ncclSuccess;
  }
  static ncclResult_t mem_free(void* block) {
    std::lock_guard lock(present->mutex_);
    auto given = present->blocks_.extract(block);
    if (given.empty()) return ncclInvalidArgument;
    present->freed_.push_back(std::move(given.mapped()));
    return ncclSuccess;
  }
  static ncclResult_t window_register(ncclComm_t comm, void* memory, std::size_t bytes, void** window,
                                      int flags) {
    const ncclResult_t rc = note(comm, "ncclCommWindowRegister", fmt::format("{} {}", bytes, flags));
    std::lock_guard lock(present->mutex_);
    if (!present->blocks_.contains(memory)) return ncclInvalidArgument;
    comm->clique->windows[comm->rank].push_back({static_cast<std::byte*>(memory), bytes});
    comm->registering = window;
    return rc == ncclSuccess ? ncclInProgress : rc;
  }
  static ncclResult_t window_deregister(ncclComm_t comm, void* window) {
    const ncclResult_t rc = note(comm, "ncclCommWindowDeregister");
    const std::lock_guard lock(present->mutex_);
    const auto is_it = [&](const FakeWindow& each) { return each.memory == window; };
    return std::erase_if(comm->clique->windows[comm->rank], is_it) == 1 ? rc : ncclInvalidArgument;
  }

  static ncclResult_t finalize(ncclComm_t comm) {
    const ncclResult_t rc = note(comm, "ncclCommFinalize");
    const std::lock_guard lock(present->mutex_);
    comm->finalizing = true;
    return rc;
  }
  static ncclResult_t destroy(ncclComm_t comm) { return note(comm, "ncclCommDestroy"); }
  static ncclResult_t abort(ncclComm_t comm) {
    const ncclResult_t rc = note(comm, "ncclCommAbort");
    std::unique_lock lock(present->mutex_);
    comm->aborted = comm->clique->aborted = true;
    for (FakeRound& round : comm->clique->rounds) {
      if (round.done.contains(comm->rank)) round.done[comm->rank]->passed = true;
    }
    ++present->aborting_;
    for (lock.unlock(); comm->held();) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    --present->aborting_;
    return rc;
  }

  static ncclResult_t make_op(ncclRedOp_t* op, void* scalar, ncclDataType_t type, ncclScalarResidence_t,
                              ncclComm_t comm) {
    const double factor = value_at(type_of(type), scalar, 0);
    {
      std::lock_guard lock(present->mutex_);  // who comes last to a round looks at them
      comm->factors.push_back(factor);
      *op = static_cast<ncclRedOp_t>(ncclNumOps + static_cast<int>(comm->factors.size()) - 1);
    }
    return note(comm, "ncclRedOpCreatePreMulSum", fmt::format("{:.3g}", factor));
  }
  static ncclResult_t end_op(ncclRedOp_t, ncclComm_t comm) { return note(comm, "ncclRedOpDestroy"); }

  static ncclResult_t group_start() { return group.clear(), ncclSuccess; }
  static ncclResult_t group_end() {
    bool fails = false;
    for (auto& [comm, call] : group) {
      std::lock_guard lock(present->mutex_);
      fails |= FakeNcclCalls::fails("ncclGroupEnd", comm->rank);
      comm->pending.push_back(call);
    }
    group.clear();
    return fails ? ncclSystemError : ncclInProgress;
  }
  static ncclResult_t add(ncclComm_t comm, cudaStream_t stream, FakeCall call, bool reduces) {
    comm->stream = stream;
    std::string with = fmt::format("{} {}", call.count, to_string(call.dtype));
    if (reduces) with += " " + op_name(call.op);
    const bool has_peer = call.what == "ncclBroadcast" || call.what == "ncclReduce" ||
                          call.what == "ncclSend" || call.what == "ncclRecv";
    if (has_peer) with += fmt::format(" {}", call.peer);
    const ncclResult_t rc = note(comm, call.what, with);
    group.emplace_back(comm, std::move(call));
    return rc;
  }

  static ncclResult_t all_reduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                                 ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    return add(comm, stream, {"ncclAllReduce", from, to, count, type_of(type), op, 0}, true);
  }
  static ncclResult_t reduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                             ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
    return add(comm, stream, {"ncclReduce", from, to, count, type_of(type), op, root}, true);
  }
  static ncclResult_t reduce_scatter(const void* from, void* to, std::size_t count, ncclDataType_t type,
                                     ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    return add(comm, stream, {"ncclReduceScatter", from, to, count, type_of(type), op, 0}, true);
  }
  static ncclResult_t all_gather(const void* from, void* to, std::size_t count, ncclDataType_t type,
                                 ncclComm_t comm, cudaStream_t stream) {
    return add(comm, stream, {"ncclAllGather", from, to, count, type_of(type), 0, 0}, false);
  }
  static ncclResult_t broadcast(const void* from, void* to, std::size_t count, ncclDataType_t type, int root,
                                ncclComm_t comm, cudaStream_t stream) {
    return add(comm, stream, {"ncclBroadcast", from, to, count, type_of(type), 0, root}, false);
  }
  static ncclResult_t send(const void* from, std::size_t count, ncclDataType_t type, int peer,
                           ncclComm_t comm, cudaStream_t stream) {
    return add(comm, stream, {"ncclSend", from, nullptr, count, type_of(type), 0, peer}, false);
  }
  static ncclResult_t recv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                           cudaStream_t stream) {
    return add(comm, stream, {"ncclRecv", nullptr, to, count, type_of(type), 0, peer}, false);
  }
};

FakeNccl::FakeNccl() {
  using Calls = FakeNcclCalls;
  library_.version = NCCL_VERSION_CODE;
  library_.path = "the test";
  library_.functions = {Calls::get_version,
                        Calls::get_error_string,
                        Calls::get_last_error,
                        Calls::get_unique_id,
                        Calls::init,
                        Calls::get_async_error,
                        Calls::finalize,
                        Calls::destroy,
                        Calls::abort,
                        Calls::make_op,
                        Calls::end_op,
                        Calls::group_start,
                        Calls::group_end,
                        Calls::all_reduce,
                        Calls::reduce,
                        Calls::reduce_scatter,
                        Calls::all_gather,
                        Calls::broadcast,
                        Calls::send,
                        Calls::recv,
                        Calls::mem_alloc,
                        Calls::mem_free,
                        Calls::window_register,
                        Calls::window_deregister};
  present = this;
}

FakeNccl::~FakeNccl() {
  while (aborting_ > 0) std::this_thread::yield();
  present = nullptr;
}

ncclComm_t FakeNccl::alone_of(int size, int rank) {
  ncclUniqueId id{};
  std::snprintf(id.internal, sizeof id.internal, "alone %d %d", size, rank);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  FakeNcclCalls::init(&comm, size, id, rank, &config);
  comm->clique->connected = size;
  take_calls(rank);
  return comm;
}

std::vector<std::string> FakeNccl::take_calls(int rank) {
  std::lock_guard lock(mutex_);
  return std::exchange(calls_[rank], {});
}

}  // namespace rueda
