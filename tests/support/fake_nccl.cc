// SPDX-License-Identifier: Apache-2.0
#include "tests/support/fake_nccl.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "tests/support/fake_devices.h"
#include "tests/support/values.h"

namespace rueda {
namespace {

FakeNccl* present = nullptr;

// One call between members.
struct FakeCall {
  std::string what;
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t count = 0;
  DataType dtype = DataType::uint8;
  int op = ncclSum;
  int peer = 0;  // or root
};

// What members gave between ncclGroupStart and ncclGroupEnd.
struct FakeRound {
  std::map<int, std::vector<FakeCall>> calls;  // by place
  std::size_t arrived = 0;
  std::map<int, std::shared_ptr<FakeDevice::Point>> done;
};

}  // namespace

struct FakeClique {
  int size = 0;
  int connected = 0;
  std::vector<FakeRound> rounds;
};

}  // namespace rueda

// NCCL names it, and leaves it to the library.
struct ncclComm {
  std::shared_ptr<rueda::FakeClique> clique;
  int place = 0;
  std::size_t rounds = 0;
  std::vector<rueda::FakeCall> pending;  // of the round that a look is to begin
  cudaStream_t stream = nullptr;
  std::vector<double> factors;  // of operators that were made
  bool aborted = false;
};

namespace rueda {
namespace {

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

std::size_t bytes_of(const FakeCall& call) { return call.count * size_of(call.dtype); }

double reduced(const std::vector<const FakeCall*>& members, const std::vector<double>& factors,
               std::int64_t i) {
  const FakeCall& first = *members.front();
  double result = 0;
  for (std::size_t m = 0; m < members.size(); ++m) {
    double value = value_at(first.dtype, FakeDevice::real(members[m]->from), i);
    if (first.op >= ncclNumOps) value *= factors.at(static_cast<std::size_t>(first.op - ncclNumOps));
    if (m == 0) {
      result = value;
    } else {
      switch (first.op) {
        case ncclProd: result *= value; break;
        case ncclMax: result = std::max(result, value); break;
        case ncclMin: result = std::min(result, value); break;
        default: result += value;
      }
    }
  }
  if (first.op == ncclAvg) result /= static_cast<double>(members.size());
  return is_integer(first.dtype) ? std::trunc(result) : result;
}

using Copied = std::vector<std::byte>;

Copied bytes_at(const void* memory, std::size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(FakeDevice::real(memory));
  return {begin, begin + bytes};
}

// Results of one collective call, by place; nothing is written before all have been read.
std::vector<Copied> results(const std::vector<const FakeCall*>& members, const std::vector<double>& factors) {
  const FakeCall& first = *members.front();
  const std::size_t size = members.size(), bytes = bytes_of(first);
  std::vector<Copied> out(size);
  if (first.what == "ncclBroadcast") {
    for (Copied& each : out) each = bytes_at(members[static_cast<std::size_t>(first.peer)]->from, bytes);
    return out;
  }
  if (first.what == "ncclAllGather") {
    Copied all;
    for (const FakeCall* each : members) {
      const Copied part = bytes_at(each->from, bytes);
      all.insert(all.end(), part.begin(), part.end());
    }
    std::ranges::fill(out, all);
    return out;
  }
  const bool scatters = first.what == "ncclReduceScatter";
  const std::size_t count = first.count * (scatters ? size : 1);
  Copied sum(count * size_of(first.dtype));
  for (std::size_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::int64_t>(i);
    set_value(first.dtype, sum.data(), at, reduced(members, factors, at));
  }
  for (std::size_t m = 0; m < size; ++m) {
    const auto part = sum.begin() + static_cast<std::ptrdiff_t>(m * bytes);
    if (scatters) out[m].assign(part, part + static_cast<std::ptrdiff_t>(bytes));
    if (!scatters && (first.what != "ncclReduce" || static_cast<int>(m) == first.peer)) out[m] = sum;
  }
  return out;
}

void write(const FakeCall& call, const Copied& bytes) {
  if (!bytes.empty()) std::memcpy(FakeDevice::real(call.to), bytes.data(), bytes.size());
}

void send_and_receive(FakeRound& round) {
  for (auto& [to, calls] : round.calls) {
    for (const FakeCall& call : calls) {
      if (call.what != "ncclRecv") continue;
      auto& theirs = round.calls.at(call.peer);
      const auto sent = std::ranges::find_if(
          theirs, [to = to](const FakeCall& each) { return each.what == "ncclSend" && each.peer == to; });
      if (sent == theirs.end() || sent->count != call.count)
        throw std::runtime_error("FakeNccl: a receive without its send, or of another length");
      write(call, bytes_at(sent->from, bytes_of(*sent)));
    }
  }
}

void run_round(FakeClique& clique, FakeRound& round, const std::vector<double>& factors) {
  const std::vector<FakeCall>& first = round.calls.at(0);
  const bool pairs = std::ranges::any_of(round.calls, [](const auto& each) {
    return !each.second.empty() && (each.second[0].what == "ncclSend" || each.second[0].what == "ncclRecv");
  });
  if (pairs) return send_and_receive(round);
  for (std::size_t i = 0; i < first.size(); ++i) {
    std::vector<const FakeCall*> members;
    for (int place = 0; place < clique.size; ++place) {
      const FakeCall& call = round.calls.at(place).at(i);
      if (call.what != first[i].what || call.count != first[i].count || call.dtype != first[i].dtype ||
          call.op != first[i].op || call.peer != first[i].peer)
        throw std::runtime_error("FakeNccl: members differ in what they ask");
      members.push_back(&call);
    }
    const std::vector<Copied> out = results(members, factors);
    for (std::size_t m = 0; m < members.size(); ++m) write(*members[m], out[m]);
  }
}

}  // namespace

// Purpose: NCCL's functions, as the table wants them.
struct FakeNcclCalls {
  static bool fails(const std::string& call, int place) {
    const auto found = present->failing_.find(place);
    return found != present->failing_.end() && found->second == call;
  }
  static ncclResult_t note(ncclComm_t comm, const std::string& call, const std::string& with = "") {
    std::lock_guard lock(present->mutex_);
    present->calls_[comm->place].push_back(call + "(" + with + ")");
    return fails(call, comm->place) ? ncclSystemError : ncclSuccess;
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

  static ncclResult_t init(ncclComm_t* comm, int size, ncclUniqueId id, int place, ncclConfig_t* config) {
    auto made = std::make_unique<ncclComm>();
    made->place = place;
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
    const ncclResult_t rc = note(*comm, "ncclCommInitRankConfig", fmt::format("{} of {}", place, size));
    if (config->blocking != 0) return ncclInvalidArgument;
    return rc == ncclSuccess ? ncclInProgress : rc;
  }

  // A round begins with the first look at its communicator, not when it is asked for.
  static ncclResult_t get_async_error(ncclComm_t comm, ncclResult_t* state) {
    std::unique_lock lock(present->mutex_);
    const bool connecting = comm->clique->connected < comm->clique->size;
    *state = connecting || comm->stream != nullptr ? ncclInProgress : ncclSuccess;
    if (fails("async", comm->place)) *state = ncclSystemError;
    if (connecting || comm->stream == nullptr) return ncclSuccess;
    const std::size_t number = comm->rounds++;
    std::vector<FakeRound>& rounds = comm->clique->rounds;
    if (rounds.size() <= number) rounds.resize(number + 1);
    auto done = std::make_shared<FakeDevice::Point>();
    rounds[number].calls[comm->place] = std::exchange(comm->pending, {});
    rounds[number].done[comm->place] = done;
    const cudaStream_t stream = std::exchange(comm->stream, nullptr);
    lock.unlock();  // the device has a lock of its own, and calls us
    FakeDevice& device = FakeDevice::of(stream);
    device.give(stream, [comm, number] { arrive(comm, number); });
    device.wait(stream, std::move(done));
    return ncclSuccess;
  }
  static void arrive(ncclComm_t comm, std::size_t number) {
    std::lock_guard lock(present->mutex_);
    FakeClique& clique = *comm->clique;
    FakeRound& round = clique.rounds[number];
    if (++round.arrived < static_cast<std::size_t>(clique.size) || present->hangs_) return;
    run_round(clique, round, comm->factors);
    for (auto& [place, done] : round.done) done->passed = true;
  }

  static ncclResult_t finalize(ncclComm_t comm) { return note(comm, "ncclCommFinalize"); }
  static ncclResult_t destroy(ncclComm_t comm) { return note(comm, "ncclCommDestroy"); }
  static ncclResult_t abort(ncclComm_t comm) {
    const ncclResult_t rc = note(comm, "ncclCommAbort");
    std::lock_guard lock(present->mutex_);
    comm->aborted = true;
    for (FakeRound& round : comm->clique->rounds) {
      if (round.done.contains(comm->place)) round.done[comm->place]->passed = true;
    }
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
      fails |= FakeNcclCalls::fails("ncclGroupEnd", comm->place);
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
  library_.functions = {
      Calls::get_version, Calls::get_error_string, Calls::get_last_error, Calls::get_unique_id,
      Calls::init,        Calls::get_async_error,  Calls::finalize,       Calls::destroy,
      Calls::abort,       Calls::make_op,          Calls::end_op,         Calls::group_start,
      Calls::group_end,   Calls::all_reduce,       Calls::reduce,         Calls::reduce_scatter,
      Calls::all_gather,  Calls::broadcast,        Calls::send,           Calls::recv};
  present = this;
}

FakeNccl::~FakeNccl() { present = nullptr; }

ncclComm_t FakeNccl::alone_of(int size, int place) {
  ncclUniqueId id{};
  std::snprintf(id.internal, sizeof id.internal, "alone %d %d", size, place);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  FakeNcclCalls::init(&comm, size, id, place, &config);
  comm->clique->connected = size;
  take_calls(place);
  return comm;
}

std::vector<std::string> FakeNccl::take_calls(int place) {
  std::lock_guard lock(mutex_);
  return std::exchange(calls_[place], {});
}

}  // namespace rueda
