// SPDX-License-Identifier: Apache-2.0
#include "core/engine/runtime.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "core/base/error.h"
#include "core/base/host_buffer.h"
#include "core/base/log.h"
#include "core/base/operation_traits.h"
#include "core/base/wait_check.h"
#include "core/engine/operations/validate.h"
#include "core/engine/progress_engine.h"
#include "core/engine/progress_loop.h"
#include "core/engine/watchdog.h"
#include "core/observe/metrics_file.h"
#include "core/observe/rank_file.h"

namespace rueda {
namespace {

constexpr int kStuckExitStatus = 70;  // EX_SOFTWARE

// The watchdog's last act. Plain stdio: whatever else the process holds may be what is stuck. Threads that
// wait are told, so that they can say what they were at.
[[noreturn]] void end_stuck_process(const std::string& place, const std::string& report, Waiters& waiters) {
  std::fprintf(stderr, "rueda: %s: the background thread does not move; the process ends in 2 s.\n%s",
               place.c_str(), report.c_str());
  std::fflush(stderr);
  waiters.fail(Status::backend_error(
      fmt::format("{}: the background thread does not move, perhaps inside a library or the "
                  "program's allocator; the process ends. "
                  "RUEDA_WATCHDOG_TIME allows it more time.",
                  place)));
  std::this_thread::sleep_for(std::chrono::seconds(2));
  _exit(kStuckExitStatus);
}

}  // namespace

Runtime::Runtime(RuntimeComponents parts) : shared_(parts.bell) {
  const Rank rank = parts.rank;
  place_ = fmt::format("rank {} of {} (process {} on {})", rank, parts.size, getpid(), parts.host);
  const double watchdog_time = parts.config.watchdog_time;
  const std::string metrics_file = parts.config.metrics_file;
  static_sets_ = parts.process_sets;
  started_as_ = parts.started_as;
  reduction_order_ = parts.config.reduction_order;
  tensor_memory_ = parts.tensor_memory;
  accelerator_ = parts.accelerator;
  no_accelerator_ = parts.no_accelerator;
  device_memory_ = parts.device_memory;
  std::promise<Welcome> promise;
  std::future<Welcome> started = promise.get_future();
  std::promise<void> end;
  ended_ = end.get_future();
  thread_ = std::thread(
      [this, moved = std::move(parts), promise = std::move(promise), end = std::move(end)]() mutable {
        run(std::move(moved), std::move(promise));
        end.set_value();
      });
  watchdog_ = std::make_unique<Watchdog>(shared_, watchdog_time,
                                         [this] { end_stuck_process(place_, report(), *shared_.waiters); });
  Welcome welcome;
  wait_for_start(started);
  try {
    welcome = started.get();
  } catch (const std::exception& error) {
    welcome.status = Status::backend_error(fmt::format("init: rank {} failed: {}", rank, error.what()));
  }
  if (!welcome.status.ok()) {
    thread_.join();
    throw_if_error(welcome.status);
  }
  job_ = welcome.job;
  topology_ = make_topology(rank, welcome.hosts);
  world_ = RankSet(0, topology_.size);
  if (!metrics_file.empty()) {
    metrics_file_ = std::make_unique<MetricsFile>(path_of_rank(metrics_file, rank),
                                                  [this] { return to_prometheus_text(metrics()); });
  }
}

Runtime::~Runtime() {
  depart();
  finish();
}

// An exception of a WaitCheck ends the start on this rank. The background thread does not begin meanwhile.
void Runtime::wait_for_start(const std::future<Welcome>& started) {
  const WaitCheck* check = wait_check_here();
  while (check != nullptr && started.wait_for(kCheckEvery) != std::future_status::ready) {
    std::unique_lock lock(mutex_);
    if (begun_) return;
    try {
      check->look();
    } catch (...) {
      shared_.unwanted.store(true);
      lock.unlock();
      shared_.bell->ring();
      thread_.join();
      throw;
    }
  }
}

// Returns true if the background thread begins, with all ranks there.
bool Runtime::begin() {
  std::lock_guard lock(mutex_);
  begun_ = !shared_.unwanted.load();
  return begun_;
}

// The background thread.
void Runtime::run(RuntimeComponents parts, std::promise<Welcome> started) {
  std::unique_ptr<ProgressEngine> engine;
  const Config config = parts.config;
  const Rank rank = parts.rank;
  try {
    engine = std::make_unique<ProgressEngine>(std::move(parts), shared_);
    const Welcome welcome = engine->start();
    if (welcome.status.ok() && !begin()) return;
    if (welcome.status.ok()) begin_timeline(config);
    if (welcome.status.ok() && rank == 0) begin_tuning_log(config);
    started.set_value(welcome);
    if (!welcome.status.ok()) return;
  } catch (...) {
    started.set_exception(std::current_exception());
    return;
  }
  ProgressLoop(*engine, shared_, from_seconds(config.poll_time * 1e-6)).run();
  shared_.ended.store(true);
  std::lock_guard lock(mutex_);
  failure_ = engine->failure();
}

// A timeline that cannot be written is no reason to end a job.
void Runtime::begin_timeline(const Config& config) {
  if (config.timeline.empty() || config.timeline == "DYNAMIC") return;
  const Status started = shared_.observer.timeline().start(config.timeline, config.timeline_mark_cycles);
  if (!started.ok()) log(LogLevel::warning, "RUEDA_TIMELINE: {}", started.message);
}

void Runtime::begin_tuning_log(const Config& config) {
  if (config.autotune_log.empty()) return;
  if (!config.autotune) {
    return log(LogLevel::warning,
               "RUEDA_AUTOTUNE_LOG={} is ignored: nothing is tuned without RUEDA_AUTOTUNE=1 (--autotune)",
               config.autotune_log);
  }
  const Status opened = shared_.observer.tuning_log().open(config.autotune_log);
  if (!opened.ok()) log(LogLevel::warning, "RUEDA_AUTOTUNE_LOG: {}", opened.message);
}

std::shared_ptr<std::byte> Runtime::allocate(std::size_t bytes) {
  if (tensor_memory_) {
    if (std::shared_ptr<std::byte> shared = tensor_memory_->allocate(bytes)) return shared;
  }
  try {
    const auto buffer = std::make_shared<HostBuffer>(bytes);
    std::memset(buffer->data(), 0, bytes);
    return {buffer, buffer->data()};
  } catch (const std::bad_alloc&) {
    throw BackendError(Status::backend_error(fmt::format(
        "rank {}: there is no memory for a tensor of {} bytes; free some, use smaller tensors, or "
        "allow more (ulimit -v)",
        topology_.rank, bytes)));
  }
}

std::shared_ptr<std::byte> Runtime::allocate_on_device(int device, std::size_t bytes) {
  const std::string problem = device_problem();
  if (!device_memory_ || !problem.empty())
    refuse(fmt::format(
        "rank {} wants memory on device {}, but there is {}; use allocate() for tensors of the host.",
        topology_.rank, device, problem.empty() ? "nothing that gives it" : problem));
  try {
    return device_memory_(device, bytes);
  } catch (const std::bad_alloc&) {
    throw BackendError(Status::backend_error(fmt::format(
        "rank {}: there is no memory on device {} for {} bytes; free some, or use smaller tensors",
        topology_.rank, device, bytes)));
  }
}

Handle Runtime::submit(Submission&& submission) {
  shared_.released.clear();
  throw_if_error(validate(submission, topology_.rank, world_));
  make_ready(submission);
  return enqueue(std::move(submission));
}

Handle Runtime::submit_next(std::string_view prefix, Submission&& submission) {
  shared_.released.clear();
  submission.request.name = prefix;
  throw_if_error(validate(submission, topology_.rank, world_));
  make_ready(submission);
  submission.request.name = next_name(prefix, submission.request.process_set);
  return enqueue(std::move(submission));
}

std::vector<Handle> Runtime::submit_group(std::vector<Submission> group) {
  shared_.released.clear();
  if (group.empty()) return {};
  for (const Submission& submission : group) throw_if_error(validate(submission, topology_.rank, world_));
  throw_if_error(validate_group(group));
  for (Submission& submission : group) make_ready(submission);
  std::vector<std::shared_ptr<HandleState>> states;
  std::vector<Handle> handles;
  for (Submission& submission : group) {
    complete(submission.request);
    states.push_back(std::make_shared<HandleState>(shared_.waiters, std::move(submission)));
    handles.emplace_back(states.back());
    captures_.add(states.back());
  }
  std::vector<Entry> entries = entries_of_group(std::move(states));
  hand_over(entries);
  return handles;
}

Handle Runtime::enqueue(Submission&& submission) {
  complete(submission.request);
  const auto state = std::make_shared<HandleState>(shared_.waiters, std::move(submission));
  captures_.add(state);
  Entry entry(state);
  hand_over({&entry, 1});
  return Handle(state);
}

std::string Runtime::device_problem() const {
  return accelerator_ ? accelerator_->problem() : no_accelerator_;
}

// A tensor on a device is ready when the device has come to where its stream stands now.
void Runtime::make_ready(Submission& submission) {
  const Request& request = submission.request;
  if (request.device == DeviceKind::host) return;
  const std::string problem = device_problem();
  if (!problem.empty()) {
    refuse(
        fmt::format("{}: rank {} gave a tensor on a {} device, but there is {}; copy it to the host first.",
                    title(request), topology_.rank, to_string(request.device), problem));
  }
  submission.ready = accelerator_->record(submission.device, submission.stream);
  if (submission.ready->captured()) submission.request.capture = captures_.number_for(request);
}

// What the settings of the job say, and what means nothing for this operation.
void Runtime::complete(Request& request) const {
  const bool reduces = traits(request.operation).reduces;
  if (!reduces) {
    request.reduction_order = ReductionOrder::any;
  } else if (reduction_order_ == ReductionOrder::fixed) {
    request.reduction_order = ReductionOrder::fixed;
  }
  const bool narrows = reduces && request.dtype == DataType::float32 &&
                       request.reduce_op != ReduceOp::adasum &&
                       request.reduction_order == ReductionOrder::any;
  const bool shares = can_send_a_share(request.operation, request.dtype, request.reduce_op);
  if (!narrows || (request.compression == Compression::topk && !shares)) {
    request.compression = Compression::none;
    request.compression_share = 1.0;
  }
}

// The background thread gets them all at once.
void Runtime::hand_over(std::span<Entry> entries) {
  // What is for the background thread's own thread anyway can begin at once.
  const bool awaited = std::ranges::all_of(entries, [](const Entry& entry) {
    const Submission& submission = entry.submission();
    return submission.awaited && !submission.allocate && entry.request().device == DeviceKind::host;
  });
  if (const Status refused = shared_.queue.push(entries); !refused.ok()) {
    if (refused.code == StatusCode::invalid_argument) throw_if_error(refused);
    for (Entry& entry : entries) conclude(entry, refused);
  } else if (!awaited) {
    shared_.bell->ring();
  }
}

void Runtime::shutdown() {
  std::lock_guard lock(shutdown_mutex_);
  depart();
  if (thread_.joinable()) wait_for_future(ended_);
  finish();
}

void Runtime::depart() {
  shared_.queue.close(
      Status::shut_down(fmt::format("{} has called shutdown(); init() comes first.", place_)));
  shared_.departing.store(true);
  shared_.bell->ring();
}

void Runtime::finish() {
  if (thread_.joinable()) {
    thread_.join();
    watchdog_.reset();
    metrics_file_.reset();
    if (Status stopped = shared_.observer.timeline().stop(); !stopped.ok())
      log(LogLevel::warning, "{}", stopped.message);
  }
  shared_.released.clear();
}

Status Runtime::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

std::string Runtime::report() const {
  return fmt::format("{}:\n{}", place_, shared_.observer.recorder().report());
}

void Runtime::start_timeline(const std::string& path, bool mark_cycles) {
  throw_if_error(shared_.observer.timeline().start(path, mark_cycles));
}

void Runtime::stop_timeline() { throw_if_error(shared_.observer.timeline().stop()); }

std::string Runtime::next_name(std::string_view prefix, ProcessSetId process_set) {
  std::lock_guard lock(mutex_);
  const std::uint64_t joins = joins_[process_set];
  const std::uint64_t number = named_[{process_set, std::string(prefix)}]++;
  std::string name = job_ == 0 ? std::string(prefix) : fmt::format("{}.job{}", prefix, job_);
  if (joins != 0) name += fmt::format(".{}", joins);
  return fmt::format("{}.{}", name, number);
}

void Runtime::restart_names(ProcessSetId process_set) {
  std::lock_guard lock(mutex_);
  ++joins_[process_set];
  std::erase_if(named_, [&](const auto& item) { return item.first.first == process_set; });
}

}  // namespace rueda
