// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/unknown_variables.h"
#include "core/default_runtime.h"
#include "ops/bootstrap/address/program_store.h"
#include "ops/bootstrap/elastic_worker.h"
#include "ops/setup/defaults.h"
#include "ops/setup/group_start.h"
#include "ops/setup/shown_record.h"
#include "rueda/rueda.h"
#include "rueda/store.h"

namespace rueda {
namespace {

using MakeComponents = std::function<RuntimeComponents(const Config&)>;

rlim_t open_descriptors() {
  std::error_code none;
  return static_cast<rlim_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd", none), {}));
}

// A rank holds some descriptors for each other rank: memory that they share, and connections. Its limit rises
// to what they need, as far as it may.
void make_room_for_descriptors(Rank rank, Rank size) {
  constexpr rlim_t kOfJob = 8, kOfRank = 4, kOthers = 256;
  static std::atomic<bool> has_warned{false};
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t needed = open_descriptors() + kOfJob + kOfRank * static_cast<rlim_t>(size);
  if (limit.rlim_max < needed && rank == 0 && !has_warned.exchange(true))
    log(LogLevel::warning, "{} ranks need some {} open files each, and may have {}. Raise ulimit -Hn.", size,
        needed, limit.rlim_max);
  const rlim_t wanted = std::min(limit.rlim_max, needed + kOthers);
  if (limit.rlim_cur >= wanted) return;
  limit.rlim_cur = wanted;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

void prepare(const RuntimeComponents& components) {
  const Config& config = components.config;
  configure_log(*log_level_from(config.log_level), config.log_hide_time, components.rank);
  make_room_for_descriptors(components.rank, components.size);
  if (!components.found_by.empty()) log(LogLevel::info, "{}", components.found_by);
  if (components.rank != 0 || jobs_begun() > 0) return;
  for (const std::string& words : misspelled_settings()) log(LogLevel::warning, "{}", words);
}

// In an elastic job others take the place of ranks that are lost in the start. `failures`: before this one.
bool may_go_on_after(const Error& error, int failures) {
  constexpr int kMostOfOwn = 3;
  if (ElasticWorker::of_this_process() == nullptr) return false;
  return error.code() == StatusCode::peer_lost ||
         (error.code() == StatusCode::backend_error && failures < kMostOfOwn);
}

void start(const RankLists& process_sets, const MakeComponents& make) {
  check_not_forked();
  if (is_initialized()) {  // checks that the job can still go on
    RuntimeComponents components;
    components.process_sets = process_sets;
    return init(std::move(components));
  }
  const Config config = config_from_environment();
  const auto start_once = [&] {
    RuntimeComponents components = make(config);
    components.process_sets = process_sets;
    prepare(components);
    ops::show_record(components, "", components.started_as);
    const bool elastic = components.elastic;
    if (elastic) ElasticWorker::of_this_process()->ring_for_news(components.doorbell);
    init(std::move(components));
    if (elastic) ElasticWorker::of_this_process()->tell_formed();
  };
  for (int failures = 0; true; ++failures) {
    try {
      return start_once();
    } catch (const Error& error) {
      if (!may_go_on_after(error, failures)) throw;
      log(LogLevel::info, "{}", error.what());
    }
  }
}

// Purpose: while it lives, threads of a start may use the program's store.
class StoreOfStart {
 public:
  explicit StoreOfStart(std::shared_ptr<ProgramStore> store) : store_(std::move(store)) {}
  ~StoreOfStart() { store_->close(); }
  StoreOfStart(const StoreOfStart&) = delete;
  StoreOfStart& operator=(const StoreOfStart&) = delete;

 private:
  std::shared_ptr<ProgramStore> store_;
};

std::shared_ptr<ProgramStore> shown_store(std::shared_ptr<Store> store, Rank rank, Rank size) {
  if (!store) refuse("init: the store is null; give one that all ranks reach");
  if (rank < 0 || rank >= size)
    refuse(fmt::format("init: rank {} is none of {} ranks, which count from 0", rank, size));
  return std::make_shared<ProgramStore>(std::move(store), rank, size);
}

Launch launch_over(std::shared_ptr<ProgramStore> store, Rank rank, Rank size) {
  Launch launch;
  launch.method = BootstrapMethod::program;
  launch.rank = rank;
  launch.size = size;
  launch.source = "the program";
  launch.given_store = std::move(store);
  return launch;
}

// The ranks of a group agree on a number that none of them has had before.
std::unique_ptr<Runtime> start_numbered(RuntimeComponents components) {
  static std::atomic<std::uint64_t> numbers{0};
  components.job = numbers.load();
  auto runtime = std::make_unique<Runtime>(std::move(components));
  const std::uint64_t next = runtime->job() + 1;
  for (std::uint64_t now = numbers.load(); now < next && !numbers.compare_exchange_weak(now, next);) {}
  return runtime;
}

}  // namespace

void init(const std::vector<std::vector<Rank>>& process_sets, const std::vector<Rank>& ranks) {
  start(process_sets, [&](const Config& config) { return ops::defaults(config, ranks); });
}

void init(std::shared_ptr<Store> store, Rank rank, Rank size,
          const std::vector<std::vector<Rank>>& process_sets) {
  const auto shown = shown_store(std::move(store), rank, size);
  const StoreOfStart in_use(shown);
  const Launch launch = launch_over(shown, rank, size);
  start(process_sets, [&](const Config& config) { return ops::components_for(launch, config, {}); });
}

std::unique_ptr<Runtime> ops::start_group(const GroupStart& start) {
  check_not_forked();
  const auto shown = shown_store(start.store, start.rank, start.size);
  const StoreOfStart in_use(shown);
  Config config = config_from_environment();
  config.start_timeout = std::chrono::duration<double>(start.start_timeout).count();
  static std::atomic<bool> first{true};
  const bool alone = first.exchange(false) && !is_initialized() && jobs_begun() == 0;
  if (!alone) config.timeline = config.metrics_file = config.autotune_log = "";
  RuntimeComponents components = ops::components_for(launch_over(shown, start.rank, start.size), config, {});
  components.superseded = start.unwanted;
  show_record(components, start.name, start.ranks);
  if (alone) {
    prepare(components);
  } else {
    make_room_for_descriptors(components.rank, components.size);
  }
  return start_numbered(std::move(components));
}

bool is_elastic() { return ElasticWorker::of_this_process() != nullptr; }

std::optional<MembershipChange> membership_change() {
  const ElasticWorker* worker = ElasticWorker::of_this_process();
  return worker == nullptr ? std::nullopt : worker->change();
}

void note_training_state() {
  if (ElasticWorker* worker = ElasticWorker::of_this_process()) worker->tell_state();
}

}  // namespace rueda
