// SPDX-License-Identifier: Apache-2.0
#include "core/engine/runtime.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <system_error>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/system/fork_guard.h"
#include "core/engine/progress_engine.h"
#include "core/engine/progress_loop.h"
#include "core/engine/watchdog.h"
#include "core/observe/metrics_file.h"
#include "core/observe/rank_file.h"

namespace rueda {
namespace {

constexpr int kStuckExitStatus = 70;  // EX_SOFTWARE
constexpr auto kTimeOfWaiters = std::chrono::seconds(2);

// The watchdog's last act. Threads that wait are told first, so they can give their own account. The end is
// armed next. Whatever else the process holds may be stuck, also the reader of stderr.
void end_stuck_process(const std::string& identity, const std::function<std::string()>& report,
                       Waiters& waiters) {
  waiters.fail(Status::backend_error(
      fmt::format("{}: the background thread does not move, perhaps inside a library or the "
                  "program's allocator; the process ends. "
                  "RUEDA_WATCHDOG_TIME allows it more time.",
                  identity)));
  const auto end = [] {
    std::this_thread::sleep_for(kTimeOfWaiters);
    flush_stderr(kLastWordsTime);
    _exit(kStuckExitStatus);
  };
  bool armed = true;
  try {
    std::thread(end).detach();
  } catch (const std::system_error&) {  // no more threads: this one ends the process
    armed = false;
  }
  write_to_stderr(fmt::format("rueda: {}: the background thread does not move; the process ends in {} s.\n",
                              identity, kTimeOfWaiters.count()));
  if (!armed) end();
  write_to_stderr(report());
}

}  // namespace

Runtime::Runtime(RuntimeComponents components)
    : shared_(components.doorbell),
      memory_(components.rank, components.tensor_memory, components.accelerator, components.no_accelerator,
              components.device_memory),
      started_as_(components.elastic ? std::vector<Rank>() : components.started_as),
      static_sets_(components.process_sets),
      identity_(fmt::format("rank {} of {} (process {} on {})", components.rank, components.size, getpid(),
                            components.host)),
      thread_(shared_) {
  watch_for_forks();
  const Rank rank = components.rank;
  const double watchdog_time = components.config.watchdog_time;
  const std::string metrics_file = components.config.metrics_file;
  const ReductionOrder reduction_order = components.config.reduction_order;
  std::promise<Welcome> promise;
  std::future<Welcome> started = promise.get_future();
  try {  // the watchdog first: the background thread cannot be left half started
    watchdog_ = std::make_unique<Watchdog>(shared_, watchdog_time, [this] {
      end_stuck_process(
          identity_, [this] { return report(); }, *shared_.waiters);
    });
    thread_.start([this, moved = std::move(components), promise = std::move(promise)]() mutable {
      run(std::move(moved), std::move(promise));
    });
  } catch (const std::system_error& error) {
    throw_if_error(Status::backend_error(fmt::format(
        "init: rank {} cannot start a thread: {}. Raise the limit of processes and threads (ulimit -u, or "
        "pids.max of the container).",
        rank, error.code().message())));
  }
  Welcome welcome;
  thread_.wait_for_start(started);
  try {
    welcome = started.get();
  } catch (const std::exception& error) {
    welcome.status = Status::backend_error(fmt::format("init: rank {} failed: {}", rank, error.what()));
  } catch (...) {
    welcome.status = Status::backend_error(fmt::format("init: rank {} failed without words", rank));
  }
  if (!welcome.status.ok()) {
    thread_.join();
    throw_if_error(welcome.status);
  }
  job_ = welcome.job;
  topology_ = make_topology(rank, welcome.hosts, welcome.local_ranks);
  rules_ = SubmissionRules(rank, topology_.size, reduction_order);
  if (!metrics_file.empty()) begin_metrics_file(path_of_rank(metrics_file, rank));
}

Runtime::~Runtime() {
  depart();
  finish();
}

// The background thread.
void Runtime::run(RuntimeComponents components, std::promise<Welcome> started) {
  std::unique_ptr<ProgressEngine> engine;
  const Config config = components.config;
  const Rank rank = components.rank;
  Rank local_size = 1;
  try {
    engine = std::make_unique<ProgressEngine>(std::move(components), shared_);
    const Welcome welcome = engine->start();
    if (welcome.status.ok() && !thread_.begin()) return;
    if (welcome.status.ok()) begin_timeline(config);
    if (welcome.status.ok() && rank == 0) begin_tuning_log(config);
    started.set_value(welcome);
    if (!welcome.status.ok()) return;
    const std::string& own = welcome.hosts[static_cast<std::size_t>(rank)];
    local_size = static_cast<Rank>(std::ranges::count(welcome.hosts, own));
  } catch (...) {
    started.set_exception(std::current_exception());
    return;
  }
  ProgressLoop(*engine, shared_, from_seconds(config.poll_time * 1e-6), local_size).run();
  thread_.end(engine->failure());
}

// The background thread refuses submissions before it ends.
Status Runtime::failure() const {
  const Status closed = shared_.queue.closed();
  return closed.code == StatusCode::shut_down ? thread_.failure() : closed;
}

// A timeline that cannot be written is no reason to end a job.
void Runtime::begin_timeline(const Config& config) {
  if (config.timeline.empty() || config.timeline == "DYNAMIC") return;
  const Status started = shared_.observer.timeline().start(config.timeline, config.timeline_mark_cycles);
  if (!started.ok()) log(LogLevel::warning, "RUEDA_TIMELINE: {}", started.message);
}

// As a timeline, it is no reason to end a job.
void Runtime::begin_metrics_file(const std::string& path) {
  try {
    metrics_file_ = std::make_unique<MetricsFile>(path, [this] { return to_prometheus_text(metrics()); });
  } catch (const std::system_error& error) {
    log(LogLevel::warning,
        "RUEDA_METRICS_FILE={}: no thread for it: {}. The job goes on without; raise the limit of processes "
        "and threads (ulimit -u, or pids.max of the container).",
        path, error.code().message());
  }
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

Handle Runtime::submit(Submission&& submission, std::string_view prefix) {
  shared_.released.clear();
  if (!prefix.empty()) submission.request.name = prefix;
  rules_.check(submission);
  make_ready(submission);
  if (!prefix.empty()) submission.request.name = next_name(prefix, submission.request.process_set);
  rules_.complete(submission);
  const auto state = std::make_shared<HandleState>(shared_.waiters, std::move(submission));
  captures_.add(state);
  Entry entry(state);
  shared_.queue.push({&entry, 1});
  return Handle(state);
}

std::vector<Handle> Runtime::submit_group(std::vector<Submission> group) {
  shared_.released.clear();
  if (group.empty()) return {};
  rules_.check_group(group);
  for (Submission& submission : group) make_ready(submission);
  std::vector<std::shared_ptr<HandleState>> states;
  std::vector<Handle> handles;
  for (Submission& submission : group) {
    rules_.complete(submission);
    states.push_back(std::make_shared<HandleState>(shared_.waiters, std::move(submission)));
    captures_.add(states.back());
    handles.emplace_back(states.back());
  }
  std::vector<Entry> entries = entries_of_group(std::move(states));
  shared_.queue.push(entries);
  return handles;
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
  if (!submission.ready) submission.ready = memory_.record(submission.device, submission.stream);
  if (submission.ready->captured()) submission.request.capture = captures_.number_for(request);
}

void Runtime::shutdown() {
  std::lock_guard lock(shutdown_mutex_);
  depart();
  thread_.wait_for_end();
  finish();
}

bool Runtime::shutdown_within(Duration longest) {
  std::lock_guard lock(shutdown_mutex_);
  depart();
  if (!thread_.ends_within(longest)) return false;
  finish();
  return true;
}

void Runtime::abort() {
  shared_.aborted.store(true);
  shared_.doorbell->wake();
}

void Runtime::depart() {
  shared_.queue.close(
      Status::shut_down(fmt::format("{} has called shutdown(); init() comes first.", identity_)));
  shared_.departing.store(true);
  shared_.doorbell->ring();
}

void Runtime::finish() {
  if (thread_.running()) {
    thread_.join();
    watchdog_.reset();
    metrics_file_.reset();
    if (Status stopped = shared_.observer.timeline().stop(); !stopped.ok())
      log(LogLevel::warning, "{}", stopped.message);
  }
  shared_.released.clear();
}

std::string Runtime::report() const {
  return fmt::format("{}:\n{}", identity_, shared_.observer.recorder().report());
}

void Runtime::start_timeline(const std::string& path, bool mark_cycles) {
  throw_if_error(shared_.observer.timeline().start(path, mark_cycles));
}

void Runtime::stop_timeline() { throw_if_error(shared_.observer.timeline().stop()); }

}  // namespace rueda
