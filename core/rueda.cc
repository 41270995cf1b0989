// SPDX-License-Identifier: Apache-2.0
#include "rueda/rueda.h"

#include <fmt/format.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/base/system/fork_guard.h"
#include "core/base/time.h"
#include "core/control/messages/message_pair.h"
#include "core/default_runtime.h"
#include "core/engine/memory/output_pool.h"
#include "core/submission_arguments.h"

namespace rueda {
namespace {

// So many of the last Runtimes stay after shutdown(). Other threads may still be in the middle of a call,
// which then fails.
constexpr std::size_t kEndedRuntimes = 4;

// The one global: the default Runtime, and what must be remembered when it is gone.
struct Global {
  std::mutex mutex;
  std::unique_ptr<Runtime> runtime;            // written under the mutex
  std::atomic<Runtime*> current{};             // the same, for reading
  std::deque<std::unique_ptr<Runtime>> ended;  // guarded by the mutex
  const Runtime* of_parent = nullptr;          // in a forked child; of it only what never changes
  std::atomic<std::uint64_t> jobs = 0;         // that have begun; written under the mutex
  bool elastic = false;  // the job, which may be followed by one of other ranks; guarded by the mutex
  Status failed;         // why a job could not go on, which is final; guarded by the mutex

  // Of an elastic job; guarded by the mutex.
  struct Generations {
    MetricsSnapshot::Membership counts;
    RankSet workers;           // of the present one
    Rank local_rank = -1;      // of this process, in the last one
    std::optional<Time> left;  // the last one
  } generations;
};

Global& global() {
  static Global& instance = *new Global;  // never destroyed: threads may live on while the process ends
  return instance;
}

// In a forked child there is no background thread: the object must not be changed, not even destroyed.
void forget_in_child() {
  Global& process = global();
  process.current.store(nullptr);
  if (const Runtime* runtime = process.runtime.release()) process.of_parent = runtime;
}

void register_exit_handlers() {
  static const bool registered = [] {
    std::atexit([] { shutdown(); });
    watch_for_forks();
    pthread_atfork(nullptr, nullptr, forget_in_child);
    return true;
  }();
  static_cast<void>(registered);
}

// A generation with these workers has begun.
void count(Global::Generations& generations, const RankSet& workers) {
  MetricsSnapshot::Membership& counts = generations.counts;
  if (counts.generations++ > 0) {
    counts.lost += static_cast<std::uint64_t>((generations.workers - workers).count());
    counts.joined += static_cast<std::uint64_t>((workers - generations.workers).count());
  }
  if (generations.left)
    counts.seconds_standing_still += std::chrono::duration<double>(clock_now() - *generations.left).count();
  generations.workers = workers;
  generations.left.reset();
}

void check_same_sets(const Runtime& runtime, const RankLists& asked) {
  const std::string words = in_words(asked), there = in_words(runtime.static_sets());
  if (asked.empty() || words == there) return;
  throw InvalidArgument(Status::invalid_argument(fmt::format(
      "init: Rueda runs with the process sets {}, not {}. Use add_process_set(), or call shutdown() "
      "first.",
      there, words)));
}

}  // namespace

void init(RuntimeComponents components) {
  check_not_forked();
  Global& process = global();
  std::lock_guard lock(process.mutex);
  throw_if_error(process.failed);
  if (process.runtime) {
    throw_if_error(process.runtime->failure());
    check_same_sets(*process.runtime, components.process_sets);
    return;
  }
  register_exit_handlers();
  const bool may_be_repeated = components.start_may_be_repeated;
  process.elastic = components.elastic;
  RankSet workers;
  if (process.elastic)
    for (const Rank worker : components.started_as) workers.add(RankSet::of(worker));
  if (process.elastic) components.local_rank = process.generations.local_rank;
  try {
    components.job = process.jobs;
    process.runtime = std::make_unique<Runtime>(std::move(components));
    process.jobs = process.runtime->job() + 1;
  } catch (const Error& error) {
    // Nothing is left of this start if all ranks have heard why they do not fit together, or if its
    // connections end with it. Else its messages could reach another one.
    const bool heard_by_all =
        error.code() == StatusCode::mismatch || error.code() == StatusCode::invalid_argument;
    if (!heard_by_all && !may_be_repeated) process.failed = {error.code(), error.what()};
    throw;
  } catch (...) {  // of a WaitCheck
    if (!process.elastic) {
      process.failed = Status::peer_lost(
          "An earlier init() on this rank was interrupted before the others were there. Start the job "
          "again.");
    }
    throw;
  }
  if (process.elastic) {
    count(process.generations, workers);
    process.generations.local_rank = process.runtime->topology().local_rank;
    process.runtime->use(process.generations.counts);
  }
  process.current.store(process.runtime.get());
}

void shutdown() {
  Global& process = global();
  if (is_forked_child()) return;
  std::lock_guard lock(process.mutex);
  if (!process.runtime) return;
  if (process.runtime->on_background_thread()) {  // exit() was called there; the process ends at once
    process.current.store(nullptr);
    static_cast<void>(process.runtime.release());
    return;
  }
  if (process.elastic) process.generations.left = clock_now();
  process.runtime->shutdown();
  if (!process.elastic) process.failed = process.runtime->failure();
  process.current.store(nullptr);
  process.ended.push_back(std::move(process.runtime));
  if (process.ended.size() > kEndedRuntimes) process.ended.pop_front();
  OutputPool::of_process().drop_kept();
}

Status final_failure() {
  Global& process = global();
  if (is_forked_child()) return {};
  std::lock_guard lock(process.mutex);
  return process.failed;
}

bool is_initialized() {
  const Global& process = global();
  return process.current.load() != nullptr || process.of_parent != nullptr;
}

std::uint64_t jobs_begun() { return global().jobs.load(); }

JobReference present_job() { return {jobs_begun(), default_runtime().started_as()}; }

Scope in_present_job(const Scope& scope, const JobReference& job) {
  Runtime& runtime = default_runtime();
  if (job.number == jobs_begun()) return scope;
  if (job.started_as != runtime.started_as()) {
    throw NotInitialized(Status::not_initialized(
        "What was made in a job that has ended by shutdown() cannot go on in one of other processes. "
        "Make it again after init(), and what uses it."));
  }
  if (!scope.ranks()) return runtime;
  for (const ProcessSet& set : process_sets(runtime)) {
    if (set.ranks() == *scope.ranks()) return set;
  }
  throw NotInitialized(Status::not_initialized(
      fmt::format("Process set {} belongs to a job that has ended by shutdown(). Give its ranks to init(), "
                  "or make the set again, and what uses it.",
                  scope.process_set())));
}

void check_not_forked() {
  if (is_forked_child()) throw_if_error(status_in_forked_child());
}

Runtime& default_runtime() {
  if (Runtime* runtime = global().current.load()) return *runtime;
  check_not_forked();
  throw NotInitialized(
      Status::not_initialized("Rueda is not initialized in this process. Call init() first."));
}

std::shared_ptr<std::byte> allocate(std::size_t bytes) { return default_runtime().allocate(bytes); }
std::shared_ptr<std::byte> allocate_on_device(int device, std::size_t bytes) {
  return default_runtime().allocate_on_device(device, bytes);
}

namespace {

// A worker that loads data may ask whose it is.
const Topology& topology() {
  const Runtime* parents = global().of_parent;
  return parents ? parents->topology() : default_runtime().topology();
}

}  // namespace

Rank rank() { return topology().rank; }
Rank size() { return topology().size; }
Rank local_rank() { return topology().local_rank; }
Rank local_size() { return topology().local_size; }
Rank cross_rank() { return topology().cross_rank; }
Rank cross_size() { return topology().cross_size; }
bool is_homogeneous() { return topology().homogeneous; }

void set_reduction(Request& request, const Reduction& reduction) {
  request.reduce_op = reduction.op;
  request.prescale_factor = reduction.prescale_factor;
  request.postscale_factor = reduction.postscale_factor;
  request.reduction_order = reduction.order;
  request.compression = reduction.compression;
  if (reduction.compression == Compression::topk) request.compression_share = reduction.compression_share;
  request.measure = reduction.measure;
}

namespace {

Submission submission_for(const Scope& scope, Operation operation, std::string name, ConstTensorView input,
                          const Reduction& reduction = {ReduceOp::sum}) {
  Submission submission;
  Request& request = submission.request;
  request.name = std::move(name);
  request.operation = operation;
  request.dtype = input.dtype;
  request.shape = input.shape;
  set_reduction(request, reduction);
  submission.input = std::move(input);
  set_scope(submission, scope);
  return submission;
}

}  // namespace

Handle allreduce_async(std::string name, ConstTensorView input, TensorView output, Reduction reduction,
                       Scope scope) {
  Submission submission =
      submission_for(scope, Operation::allreduce, std::move(name), std::move(input), reduction);
  submission.output = std::move(output);
  return scope.runtime().submit(std::move(submission));
}

std::vector<Handle> grouped_allreduce_async(const std::string& name, std::span<const ConstTensorView> inputs,
                                            std::span<const TensorView> outputs, Reduction reduction,
                                            Scope scope) {
  if (inputs.size() != outputs.size()) {
    throw InvalidArgument(Status::invalid_argument(
        fmt::format("grouped allreduce '{}': {} inputs and {} outputs; give one output for each input.", name,
                    inputs.size(), outputs.size())));
  }
  std::vector<Submission> group;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Submission submission =
        submission_for(scope, Operation::allreduce, fmt::format("{}.{}", name, i), inputs[i], reduction);
    submission.output = outputs[i];
    group.push_back(std::move(submission));
  }
  return scope.runtime().submit_group(std::move(group));
}

Handle allgather_async(std::string name, ConstTensorView input, Scope scope) {
  return scope.runtime().submit(
      submission_for(scope, Operation::allgather, std::move(name), std::move(input)));
}

Handle broadcast_async(std::string name, ConstTensorView input, TensorView output, Rank root, Scope scope) {
  Submission submission = submission_for(scope, Operation::broadcast, std::move(name), std::move(input));
  submission.request.root = root;
  submission.output = std::move(output);
  return scope.runtime().submit(std::move(submission));
}

Handle alltoall_async(std::string name, ConstTensorView input, std::vector<std::int64_t> splits,
                      Scope scope) {
  Submission submission = submission_for(scope, Operation::alltoall, std::move(name), std::move(input));
  submission.splits = std::move(splits);
  return scope.runtime().submit(std::move(submission));
}

Handle gather_async(std::string name, ConstTensorView input, Rank root, Scope scope) {
  Submission submission = submission_for(scope, Operation::gather, std::move(name), std::move(input));
  submission.request.root = root;
  return scope.runtime().submit(std::move(submission));
}

Handle scatter_async(std::string name, ConstTensorView input, Rank root, std::vector<std::int64_t> splits,
                     Scope scope) {
  Submission submission = submission_for(scope, Operation::scatter, std::move(name), std::move(input));
  submission.request.root = root;
  submission.splits = std::move(splits);
  return scope.runtime().submit(std::move(submission));
}

Handle reduce_async(std::string name, ConstTensorView input, TensorView output, Rank root,
                    Reduction reduction, Scope scope) {
  Submission submission =
      submission_for(scope, Operation::reduce, std::move(name), std::move(input), reduction);
  submission.request.root = root;
  submission.output = std::move(output);
  return scope.runtime().submit(std::move(submission));
}

Handle reducescatter_async(std::string name, ConstTensorView input, Reduction reduction, Scope scope) {
  return scope.runtime().submit(
      submission_for(scope, Operation::reducescatter, std::move(name), std::move(input), reduction));
}

Scope scope_of_messages(const Scope& scope, std::string_view name, MessagePair pair) {
  const Topology& here = scope.runtime().topology();
  const bool sends = pair.source == here.rank;
  const Rank other = sends ? pair.destination : pair.source;
  const RankSet members = scope.ranks() ? *scope.ranks() : RankSet(0, here.size);
  const auto refuse_pair = [&](const std::string& words) {
    refuse(fmt::format("message '{}': {}.", name.substr(0, 80), words));
  };
  if (here.size > MessagePair::kMostRanks)
    refuse_pair(fmt::format("there are {} ranks, and messages work among {} at most; use alltoall", here.size,
                            MessagePair::kMostRanks));
  if (other == here.rank) refuse_pair(fmt::format("rank {} has no messages to itself; copy instead", other));
  if (!members.contains(here.rank) || !members.contains(other))
    refuse_pair(fmt::format("rank {} cannot {} rank {}; both must be of {}", here.rank,
                            sends ? "send to" : "receive from", other, to_string(members)));
  const Scope messages = ProcessSet(scope.runtime(), pair.id(), pair.members());
  return scope.is_awaited() ? messages.awaited() : messages;
}

Handle send_async(std::string name, ConstTensorView input, Rank destination, Scope scope) {
  const Rank own = scope.runtime().topology().rank;
  const Scope messages = scope_of_messages(scope, name, {own, destination});
  Submission submission = submission_for(messages, Operation::message, std::move(name), std::move(input));
  submission.request.root = own;
  submission.output = unwritten(submission.input);
  return scope.runtime().submit(std::move(submission));
}

Handle recv_async(std::string name, TensorView output, Rank source, Scope scope) {
  const Scope messages = scope_of_messages(scope, name, {source, scope.runtime().topology().rank});
  Submission submission = submission_for(messages, Operation::message, std::move(name), output);
  submission.request.root = source;
  submission.output = std::move(output);
  return scope.runtime().submit(std::move(submission));
}

Handle barrier_async(Scope scope) {
  ConstTensorView nothing(nullptr, DataType::uint8, {0});
  return scope.runtime().submit(submission_for(scope, Operation::barrier, {}, std::move(nothing)), "barrier");
}

Handle share_window_async(DeviceWindow window, int device, Scope scope) {
  ConstTensorView nothing(nullptr, DataType::uint8, {0});
  Submission submission = submission_for(scope, Operation::barrier, {}, std::move(nothing));
  submission.request.device = DeviceKind::cuda;
  submission.device = device;
  submission.window = std::make_shared<const DeviceWindow>(std::move(window));
  return scope.runtime().submit(std::move(submission), "window");
}

void start_timeline(const std::string& path, bool mark_cycles) {
  default_runtime().start_timeline(path, mark_cycles);
}

void stop_timeline() { default_runtime().stop_timeline(); }

MetricsSnapshot metrics() { return default_runtime().metrics(); }

}  // namespace rueda
