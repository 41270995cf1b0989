// SPDX-License-Identifier: Apache-2.0
#include "bench/rueda_bench/subjects/subject.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <stdexcept>

#include "bench/rueda_bench/subjects/reference.h"
#include "bench/rueda_bench/workload/awake.h"
#include "bench/rueda_bench/workload/start_line.h"
#include "core/base/error.h"
#include "core/byte_exchange.h"
#include "core/control/messages/control_message.h"
#include "core/engine/runtime.h"
#include "ops/shm/shm_backend.h"
#include "ops/tcp/tcp_components.h"
#include "rueda/rueda.h"

namespace rueda::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::shared_ptr<std::byte> allocate_in(MemoryKind kind, SymmetricMemory* window, Rank rank,
                                       std::size_t bytes) {
  if (kind == MemoryKind::ordinary) return ordinary_memory(bytes);
  std::shared_ptr<std::byte> memory = window != nullptr ? window->allocate(bytes) : nullptr;
  if (memory != nullptr) return memory;
  throw std::runtime_error(fmt::format(
      "--memory window: rank {} shares no {} bytes with its host: it takes several ranks there, started by "
      "ruedarun, with RUEDA_SHM=1, a RUEDA_WINDOW_LIMIT large enough, and address space (ulimit -v)",
      rank, bytes));
}

class StackSubject final : public Subject {
 public:
  StackSubject() {
    init();
    start_ = StartLine(local_size() == rueda::size(), rueda::size());
  }
  ~StackSubject() override { shutdown(); }

  Rank rank() const override { return rueda::rank(); }
  Rank size() const override { return rueda::size(); }

  std::shared_ptr<std::byte> allocate(MemoryKind kind, std::size_t bytes) override {
    return allocate_in(kind, default_runtime().tensor_memory().get(), rank(), bytes);
  }

  double run(CollectiveBuffers& buffers, const void*& result, bool measure) override {
    const std::string name = name_of(buffers.what(), measure);
    StartLine::await(agreed_start(start_));
    const Clock::time_point begin = Clock::now();
    const Handle handle = submit(name, buffers, measure);
    handle.wait();
    const double seconds = seconds_since(begin);
    barrier_async(awaited()).wait();
    if (handle.output().data != nullptr) {
      gathered_ = handle;  // it owns the memory
      result = gathered_.output().data;
    } else {
      result = buffers.output().data;
    }
    return seconds;
  }

  std::unique_ptr<BareLoop> bare_loop(MemoryKind kind, std::size_t elements) override {
    return std::make_unique<BareLoop>(kind, elements, static_cast<std::size_t>(rank()),
                                      default_runtime().tensor_memory().get(),
                                      [this](const std::string& word) { return gather(word); });
  }

  void rest() override { rest_awake(); }

  std::vector<std::string> gather(const std::string& word) override {
    return allgather_bytes(word, "bench.words", {});
  }

  void take_largest(std::vector<double>& values) override {
    if (!values.empty()) allreduce_async("bench.largest", view(values), view(values), {ReduceOp::max}).wait();
  }

 private:
  // Each operation is waited for at once.
  static Scope awaited() { return Scope().awaited(); }

  static std::string name_of(const Collective& what, bool measure) {
    return fmt::format("bench.{}.{}.{}{}", to_string(what.operation), to_string(what.dtype), what.bytes,
                       measure ? ".measured" : "");
  }

  static Handle submit(const std::string& name, CollectiveBuffers& buffers, bool measure) {
    const Collective& what = buffers.what();
    switch (what.operation) {
      case Operation::allreduce:
        return allreduce_async(name, buffers.input(), buffers.output(),
                               {.op = ReduceOp::sum,
                                .compression = what.share > 0 ? Compression::topk : Compression::none,
                                .measure = measure,
                                .compression_share = what.share > 0 ? what.share : 1.0},
                               awaited());
      case Operation::broadcast:
        return broadcast_async(name, buffers.input(), buffers.output(), kRoot, awaited());
      case Operation::allgather: return allgather_async(name, buffers.input(), awaited());
      case Operation::reducescatter:
        return reducescatter_async(name, buffers.input(), {ReduceOp::sum}, awaited());
      case Operation::alltoall: return alltoall_async(name, buffers.input(), {}, awaited());
      case Operation::reduce:
        return reduce_async(name, buffers.input(), buffers.output(), kRoot, {ReduceOp::sum}, awaited());
      case Operation::gather: return gather_async(name, buffers.input(), kRoot, awaited());
      case Operation::scatter: return scatter_async(name, buffers.input(), kRoot, {}, awaited());
      case Operation::message:
      case Operation::barrier:
      case Operation::join:
      case Operation::add_process_set:
      case Operation::remove_process_set: break;
    }
    no_collective(what.operation);
  }

  StartLine start_;
  Handle gathered_;
};

// Purpose: shared memory, or TCP where there are several hosts, between the ranks of a program without a
// Runtime.
class BackendSubject final : public Subject {
 public:
  BackendSubject() {
    const Config config = config_from_environment();
    Welcome welcome;
    for (const std::string& host : ranks_.gather(host_name())) welcome.hosts.push_back(host);
    everybody_ = std::make_shared<const RankSet>(0, size());
    const bool one_host = welcome.hosts == std::vector(welcome.hosts.size(), host_name());
    start_ = StartLine(one_host, size());
    if (one_host) {
      use_shared_memory(config, welcome);
    } else {
      use_tcp(config, welcome);
    }
  }
  ~BackendSubject() override {
    barrier();
    if (local_peers_) local_peers_->end();
    static_cast<void>(ranks_.gather(""));  // nobody closes a connection that another still reads
  }

  Rank rank() const override { return ranks_.rank(); }
  Rank size() const override { return ranks_.size(); }

  std::shared_ptr<std::byte> allocate(MemoryKind kind, std::size_t bytes) override {
    return allocate_in(kind, in_windows_ ? window_.get() : nullptr, rank(), bytes);
  }

  double run(CollectiveBuffers& buffers, const void*& result, bool measure) override {
    const Collective& what = buffers.what();
    Plan plan = plan_of(what.operation, what.dtype, buffers.input().elements());
    plan.measure = measure;
    if (!local_peers_) plan.pairing = pairing_of(plan);
    std::vector<Entry> entries;
    entries.push_back(entry_of(plan, buffers.input(), buffers.output()));
    entries.front().submission().allocate = [&](DataType, const Shape&) { return buffers.output(); };
    StartLine::await(agreed_start());
    const Clock::time_point begin = Clock::now();
    carry_out(plan, entries);
    const double seconds = seconds_since(begin);
    rest_awake();
    barrier();
    result = buffers.output().data;
    return seconds;
  }

  std::unique_ptr<BareLoop> bare_loop(MemoryKind kind, std::size_t elements) override {
    return std::make_unique<BareLoop>(kind, elements, static_cast<std::size_t>(rank()), window_.get(),
                                      [this](const std::string& word) { return gather(word); });
  }

  void rest() override {}
  std::vector<std::string> gather(const std::string& word) override { return ranks_.gather(word); }
  void take_largest(std::vector<double>& values) override { ranks_.take_largest(values); }

 private:
  void use_shared_memory(const Config& config, Welcome& welcome) {
    if (!config.shm)
      throw std::runtime_error("--level backend: RUEDA_SHM=0 forbids what it measures; unset it");
    Segment::Result made = Segment::make();
    throw_if_error(made.status);
    window_ = Window::make(rank(), config.window_limit);
    local_peers_ = std::make_shared<LocalPeers>(rank(), std::move(made.segment), window_);
    for (const std::string& process : ranks_.gather(fmt::format("{}", getpid())))
      welcome.process_ids.push_back(std::stoll(process));
    welcome.peer_infos = ranks_.gather(local_peers_->peer_info());
    local_peers_->connect(welcome);
    std::vector<Rank> all;
    for (Rank other = 0; other < size(); ++other) {
      all.push_back(other);
      if (!local_peers_->reaches(other))
        throw std::runtime_error(
            fmt::format("--level backend: rank {} shares no memory with rank {}; is there address space "
                        "(ulimit -v), and are both on one host?",
                        rank(), other));
    }
    in_windows_ = local_peers_->group_of(all)->own_window != nullptr;
    backend_ = std::make_unique<ShmBackend>(
        rank(), local_peers_, [](const Plan&) { return true; }, SegmentContents::kSlots);
  }

  void use_tcp(const Config& config, Welcome& welcome) {
    RuntimeComponents components;
    components.config = config;
    components.rank = rank();
    components.size = size();
    add_tcp(components);
    welcome.peer_infos = ranks_.gather(components.peer_info);
    components.on_peers_known(welcome, [] {});
    backend_ = std::move(components.backends.front());
    if (!backend_->on_peers_known(welcome.hosts, [] {}))
      throw std::runtime_error(
          "--level backend: between hosts it measures tcp, and this job has none: set RUEDA_NETWORK=tcp");
  }

  // As rank 0 decides. Asked for once a size: its answer before each turn of ours would take as many bytes of
  // what cards let through at once as a short operation has.
  Pairing pairing_of(Plan plan) {
    const auto [known, fresh] = pairings_.try_emplace({plan.operation, plan.buffer_bytes});
    if (fresh) {
      if (rank() == 0) backend_->decide(plan);
      const std::string decided = ranks_.gather(std::to_string(static_cast<int>(plan.pairing))).front();
      known->second = static_cast<Pairing>(std::stoi(decided));
    }
    return known->second;
  }

  static std::string host_name() {
    char name[256]{};
    gethostname(name, sizeof name - 1);
    return name;
  }

  Plan plan_of(Operation operation, DataType dtype, std::int64_t elements) {
    Request request;
    request.name = "bench";
    request.operation = operation;
    request.dtype = dtype;
    request.shape = {elements};
    Plan plan;
    plan.number = ++plans_;
    plan.operation = operation;
    plan.dtype = dtype;
    plan.members = everybody_;
    plan.chunk_bytes = Config().ring_chunk;
    PlanTensor& tensor = plan.tensors.emplace_back();
    tensor.request = std::make_shared<const Request>(std::move(request));
    assign_offset(plan, tensor);
    return plan;
  }

  // A rank with a core of its own polls for long: a yield in vain takes as long as a small operation. A look
  // at sockets takes as long as a yield.
  int polls() const {
    if (size() <= cores_) return 200;
    return local_peers_ ? 20 : 0;
  }

  void barrier() {
    const Plan plan = plan_of(Operation::barrier, DataType::uint8, 0);
    std::vector<Entry> entries;
    entries.push_back(entry_of(plan, {}, {}));
    carry_out(plan, entries);
  }

  std::int64_t agreed_start() {
    std::int64_t instant = start_.proposal();
    const TensorView agreed(&instant, DataType::int64, {1});
    Plan plan = plan_of(Operation::allreduce, agreed.dtype, agreed.elements());
    plan.reduce_op = ReduceOp::max;
    if (!local_peers_) plan.pairing = pairing_of(plan);
    std::vector<Entry> entries;
    entries.push_back(entry_of(plan, agreed, agreed));
    carry_out(plan, entries);
    return instant;
  }

  static Entry entry_of(const Plan& plan, const ConstTensorView& input, const TensorView& output) {
    Entry entry(plan.tensors.front().request, std::make_shared<HandleState>());
    entry.submission().input = input;
    entry.submission().output = output;
    return entry;
  }

  void carry_out(const Plan& plan, std::vector<Entry>& entries) {
    const std::unique_ptr<Work> work = backend_->start(plan, entries);
    for (int in_vain = 0;;) {
      const Work::Step step = work->step();
      if (step == Work::Step::done) return;
      in_vain = step == Work::Step::waiting ? in_vain + 1 : 0;
      if (in_vain > polls()) sched_yield();
    }
  }

  const long cores_ = sysconf(_SC_NPROCESSORS_ONLN);  // asked once: it reads a file
  Ranks ranks_;
  std::shared_ptr<Window> window_;           // none over tcp
  bool in_windows_ = false;                  // all reach those of all
  std::shared_ptr<LocalPeers> local_peers_;  // none over tcp
  std::unique_ptr<Backend> backend_;
  std::shared_ptr<const RankSet> everybody_;
  std::map<std::pair<Operation, std::int64_t>, Pairing> pairings_;  // by bytes
  StartLine start_;
  std::uint64_t plans_ = 0;
};

}  // namespace

std::int64_t agreed_start(const StartLine& start) {
  const Scope awaited = Scope().awaited();
  barrier_async(awaited).wait();  // wakes all; who is woken leaves late
  std::int64_t instant = start.proposal();
  const TensorView agreed(&instant, DataType::int64, {1});
  allreduce_async("bench.start", agreed, agreed, {ReduceOp::max}, awaited).wait();
  return instant;
}

std::unique_ptr<Subject> stack_subject() { return std::make_unique<StackSubject>(); }
std::unique_ptr<Subject> backend_subject() { return std::make_unique<BackendSubject>(); }

}  // namespace rueda::bench
