// SPDX-License-Identifier: Apache-2.0
#include "tests/support/worlds/elastic_world.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/base/time.h"
#include "ops/bootstrap/launch.h"
#include "ops/setup/defaults.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;

// Purpose: the values of one generation. Threads that still look for rank 0 may outlive it.
class StoreOfGeneration final : public KeyValueStore {
 public:
  void set(const std::string& key, const std::string& value) override {
    const std::lock_guard lock(mutex_);
    values_[key] = value;
  }
  std::optional<std::string> get(const std::string& key) override {
    const std::lock_guard lock(mutex_);
    const auto found = values_.find(key);
    return found == values_.end() ? std::nullopt : std::optional(found->second);
  }
  void remove(const std::string& key) override {
    const std::lock_guard lock(mutex_);
    values_.erase(key);
  }
  std::string in_words() const override { return "the elastic world"; }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> values_;
};

Config config_of_workers() {
  Config config;
  config.rails = "127.0.0.1";
  config.watchdog_time = 100;  // under a sanitizer, on a busy machine
  return config;
}

}  // namespace

ElasticWorld::ElasticWorld(Rank first, Rank most)
    : most_(most),
      membership_({.least = 1, .most = most, .timeout = 600s, .resets = {}}, first),
      next_(first) {
  for (Worker worker = 0; worker < first; ++worker) processes_[worker];
}

void ElasticWorld::tell_all() {
  static_cast<void>(membership_.decide(clock_now()));
  ++news_;
  for (const auto& [worker, process] : processes_)
    if (const std::shared_ptr<EventCount> doorbell = process.doorbell.lock()) doorbell->ring();
  changed_.notify_all();
}

std::optional<Generation> ElasticWorld::next_generation(Worker worker, std::optional<std::uint64_t> tried) {
  std::unique_lock lock(mutex_);
  membership_.ready(worker, tried, clock_now());
  tell_all();
  while (membership_.failure().empty() && !membership_.is_over()) {
    const Generation& newest = membership_.generation();
    if ((!tried || newest.number > *tried) && newest.workers.contains(worker)) return newest;
    const std::optional<Time> due = membership_.due();
    if (due && *due <= clock_now()) {
      tell_all();
    } else {
      changed_.wait_until(lock, due.value_or(clock_now() + 1h));
    }
  }
  return std::nullopt;
}

RuntimeComponents ElasticWorld::components(Worker worker, const Generation& generation,
                                           const std::string& host) {
  Launch launch;
  launch.method = BootstrapMethod::program;
  launch.rank = generation.workers.index_of(worker);
  launch.size = generation.workers.count();
  launch.source = "the elastic world";
  launch.given_store = store_of(generation.number);
  RuntimeComponents components = ops::components_for(launch, config_of_workers(), {});
  components.host = host;
  components.elastic = true;
  components.superseded = [this, worker, number = generation.number] {
    const std::lock_guard lock(mutex_);
    return processes_.at(worker).dead || membership_.generation().number > number;
  };
  components.has_news = [this, seen = std::uint64_t{0}]() mutable {
    const std::lock_guard lock(mutex_);
    return std::exchange(seen, news_) != news_;
  };
  components.newly_failed = [this, worker, generation, seen = std::size_t{0}]() mutable {
    const std::lock_guard lock(mutex_);
    return newly_failed(worker, generation, seen);
  };
  const std::lock_guard lock(mutex_);
  processes_.at(worker).doorbell = components.doorbell;
  return components;
}

// A worker that dies loses all others at once.
std::vector<Rank> ElasticWorld::newly_failed(Worker worker, const Generation& generation, std::size_t& seen) {
  Process& process = processes_.at(worker);
  const bool dead = process.dead;
  if (dead && process.seen_at_once) note_lost(worker, process);
  const std::vector<Worker> members = generation.by_rank();
  const std::vector<Worker>& gone = dead ? members : lost_;
  std::vector<Rank> failed;
  for (std::size_t i = dead ? 0 : seen; i < gone.size(); ++i)
    if (gone[i] != worker && generation.workers.contains(gone[i]))
      failed.push_back(generation.workers.index_of(gone[i]));
  seen = lost_.size();
  return failed;
}

std::shared_ptr<KeyValueStore> ElasticWorld::store_of(std::uint64_t generation) {
  const std::lock_guard lock(mutex_);
  stores_.erase(stores_.begin(), stores_.lower_bound(membership_.generation().number));
  std::shared_ptr<KeyValueStore>& store = stores_[generation];
  if (!store) store = std::make_shared<StoreOfGeneration>();
  return store;
}

void ElasticWorld::tell_formed(Worker worker, std::uint64_t generation) {
  const std::lock_guard lock(mutex_);
  membership_.formed(worker, generation);
  tell_all();
}

void ElasticWorld::note_lost(Worker worker, Process& process) {
  if (std::exchange(process.told, true)) return;
  membership_.lost(worker);
  lost_.push_back(worker);
  tell_all();
}

void ElasticWorld::tell_lost(Worker worker) {
  const std::lock_guard lock(mutex_);
  note_lost(worker, processes_.at(worker));
  processes_.erase(worker);
}

void ElasticWorld::tell_finished(Worker worker) {
  const std::lock_guard lock(mutex_);
  membership_.finished(worker);
  processes_.erase(worker);
  tell_all();
}

bool ElasticWorld::joiners_wait() {
  const std::lock_guard lock(mutex_);
  return membership_.change_due().joiners;
}

std::vector<Worker> ElasticWorld::take_wanted() {
  const std::lock_guard lock(mutex_);
  std::vector<Worker> wanted;
  while (membership_.takes_more() && membership_.has_formed() && std::cmp_less(processes_.size(), most_)) {
    wanted.push_back(next_);
    processes_[next_++];
  }
  return wanted;
}

bool ElasticWorld::die(Worker worker, bool seen_at_once) {
  const std::lock_guard lock(mutex_);
  const auto lives = [&](const auto& each) {
    return !each.second.dead && membership_.generation().workers.contains(each.first);
  };
  if (std::ranges::count_if(processes_, lives) < 2) return false;
  Process& process = processes_.at(worker);
  process.dead = true;
  process.seen_at_once = seen_at_once;
  broken_ = std::max(broken_.value_or(0), membership_.generation().number);
  ++news_;
  if (const std::shared_ptr<EventCount> doorbell = process.doorbell.lock()) doorbell->ring();
  return true;
}

bool ElasticWorld::is_dead(Worker worker) {
  const std::lock_guard lock(mutex_);
  return processes_.at(worker).dead;
}

void ElasticWorld::leave(std::uint64_t generation) {
  const std::lock_guard lock(mutex_);
  broken_ = std::max(broken_.value_or(0), generation);
}

bool ElasticWorld::is_broken(std::uint64_t generation) {
  const std::lock_guard lock(mutex_);
  return membership_.generation().number > generation || broken_ >= generation;
}

std::string ElasticWorld::failure() {
  const std::lock_guard lock(mutex_);
  return membership_.failure();
}

}  // namespace rueda
