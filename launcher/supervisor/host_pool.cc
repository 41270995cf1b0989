// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/host_pool.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace rueda {
namespace {

using namespace std::chrono_literals;

constexpr Cooldown kUnlisted{1s, 60s};  // where nothing is on the blacklist
constexpr int kMostDoublings = 20;

}  // namespace

HostPool::HostPool(Blacklist blacklist, std::optional<Cooldown> cooldown, std::uint32_t seed)
    : blacklist_(blacklist), cooldown_(cooldown), random_(seed) {}

bool HostPool::Host::has_workers() const {
  return std::ranges::any_of(slots, [](const Slot& slot) { return slot.worker.has_value(); });
}

void HostPool::begin(int number, const HostRanks& host) {
  Host& fresh =
      hosts_.emplace_back(Host{.name = host.host, .state = Host::State::starting, .number = number});
  for (const SlotInfo& slot : host.ranks) fresh.slots.push_back({.worker = slot.rank});
  fresh.since = Time::max();  // the start of the job has a limit of its own
}

HostPool::Change HostPool::use(const std::vector<HostSlots>& hosts) {
  std::map<std::string, int> wanted;
  for (const HostSlots& host : hosts) wanted[host.name] += host.slots;
  Change change;
  for (Host& host : hosts_) {
    if (!host.is_in_use() || wanted.contains(host.name)) continue;
    change.left.push_back(host.name);
    close(host, change.leaving);
    if (blacklist_ != Blacklist::host) bans_.erase(host.name);  // whoever names it again has mended it
  }
  std::erase_if(hosts_,
                [](const Host& host) { return host.state == Host::State::closed && host.number < 0; });
  std::erase_if(asked_to_go_, [&](const std::string& name) { return !wanted.contains(name); });
  for (const HostSlots& host : hosts) {
    const int slots = std::exchange(wanted[host.name], 0);
    const bool is_named_twice = slots == 0;
    if (is_named_twice || asked_to_go_.contains(host.name)) continue;
    if (Host* known = live_host(host.name)) {
      resize(*known, slots, change.leaving);
    } else {
      list(host.name, slots);
      change.fresh.push_back(host.name);
    }
  }
  return change;
}

std::vector<Worker> HostPool::close(int number) {
  std::vector<Worker> leaving;
  Host* host = with_number(number);
  if (host == nullptr || !host->is_in_use()) return leaving;
  close(*host, leaving);
  asked_to_go_.insert(host->name);
  return leaving;
}

void HostPool::close(Host& host, std::vector<Worker>& leaving) {
  host.state = Host::State::closed;
  for (const Slot& slot : host.slots)
    if (slot.worker) leaving.push_back(*slot.worker);
}

void HostPool::list(const std::string& name, int slots) {
  hosts_.push_back({.name = name, .slots = std::vector<Slot>(static_cast<std::size_t>(slots))});
}

// Its slots are as good or bad as they were.
void HostPool::list_again(const Host& host) {
  Host fresh{.name = host.name, .slots = host.slots};
  std::erase_if(fresh.slots, [](const Slot& slot) { return slot.closed; });
  for (Slot& slot : fresh.slots) slot.worker.reset();
  hosts_.push_back(std::move(fresh));
}

// Workers of the start may be more than the slots of their host.
void HostPool::resize(Host& host, int slots, std::vector<Worker>& leaving) {
  const auto count = static_cast<std::size_t>(slots);
  if (host.slots.size() < count) host.slots.resize(count);
  for (std::size_t i = 0; i < host.slots.size(); ++i) {
    Slot& slot = host.slots[i];
    if (std::exchange(slot.closed, i >= count) || !slot.closed) continue;
    if (slot.worker) leaving.push_back(*slot.worker);
  }
}

HostPool::Host* HostPool::live_host(const std::string& name) {
  const auto found =
      std::ranges::find_if(hosts_, [&](const Host& host) { return host.name == name && host.is_in_use(); });
  return found == hosts_.end() ? nullptr : &*found;
}

HostPool::Host* HostPool::with_number(int number) {
  const auto found = std::ranges::find(hosts_, number, &Host::number);
  return found == hosts_.end() ? nullptr : &*found;
}

const HostPool::Host* HostPool::with_number(int number) const {
  const auto found = std::ranges::find(hosts_, number, &Host::number);
  return found == hosts_.end() ? nullptr : &*found;
}

std::string HostPool::name_of(int number) const {
  const Host* host = with_number(number);
  return host == nullptr ? "" : host->name;
}

int HostPool::slots_of(int number) const {
  const Host* host = with_number(number);
  return host == nullptr ? 0 : static_cast<int>(host->slots.size());
}

bool HostPool::is_closed(int number) const {
  const Host* host = with_number(number);
  return host == nullptr || !host->is_in_use();
}

Time HostPool::usable_from(const Host& host, const Slot& slot) const {
  if (slot.closed || slot.worker) return Time::max();
  const auto ban = bans_.find(host.name);
  return ban == bans_.end() ? slot.ban.until : std::max(ban->second.until, slot.ban.until);
}

int HostPool::free_slots(const Host& host, Time now) const {
  return static_cast<int>(
      std::ranges::count_if(host.slots, [&](const Slot& slot) { return usable_from(host, slot) <= now; }));
}

std::optional<std::string> HostPool::host_to_start(int workers, Time now) const {
  int there = staying();
  for (const Host& host : hosts_)
    if (host.state == Host::State::starting || host.state == Host::State::open)
      there += free_slots(host, now);
  if (there >= workers) return std::nullopt;
  const auto found = std::ranges::find_if(hosts_, [&](const Host& host) {
    return host.state == Host::State::listed && free_slots(host, now) > 0;
  });
  return found == hosts_.end() ? std::nullopt : std::optional(found->name);
}

void HostPool::starts(const std::string& host, int number, Time now) {
  Host* fresh = live_host(host);
  fresh->state = Host::State::starting;
  fresh->number = number;
  fresh->since = now;
}

void HostPool::open(int number) {
  Host* host = with_number(number);
  if (host != nullptr && host->state == Host::State::starting) host->state = Host::State::open;
}

// The host itself may be used again, by another agent.
std::optional<HostPool::Banned> HostPool::lose(int number, Time now) {
  Host* host = with_number(number);
  if (host == nullptr || host->state == Host::State::gone) return std::nullopt;
  const bool was_in_use = host->is_in_use();
  host->state = Host::State::gone;
  for (Slot& slot : host->slots) slot.worker.reset();
  if (!was_in_use) return std::nullopt;
  Banned banned = put_off(host->name, now);
  list_again(*host);
  return banned;
}

HostPool::Banned HostPool::put_off(const std::string& host, Time now) {
  return {.host = host, .time = put_off(bans_[host], now)};
}

std::vector<int> HostPool::overdue(Time now, Duration longest) const {
  std::vector<int> numbers;
  for (const Host& host : hosts_)
    if (host.state == Host::State::starting && host.since != Time::max() && now >= host.since + longest)
      numbers.push_back(host.number);
  return numbers;
}

std::optional<Time> HostPool::starting_since() const {
  std::optional<Time> first;
  for (const Host& host : hosts_)
    if (host.state == Host::State::starting && host.since != Time::max()) first = earlier(first, host.since);
  return first;
}

std::vector<int> HostPool::take_released() {
  std::vector<int> numbers;
  for (Host& host : hosts_) {
    if (host.state != Host::State::closed || host.has_workers()) continue;
    host.state = Host::State::gone;
    numbers.push_back(host.number);
  }
  return numbers;
}

std::optional<HostPool::Opening> HostPool::opening(Time now) const {
  for (const Host& host : hosts_) {
    if (host.state != Host::State::open) continue;
    for (std::size_t i = 0; i < host.slots.size(); ++i)
      if (usable_from(host, host.slots[i]) <= now)
        return Opening{host.number, host.name, static_cast<int>(i), static_cast<int>(host.slots.size())};
  }
  return std::nullopt;
}

void HostPool::fill(const Opening& opening, Worker worker) {
  with_number(opening.number)->slots[static_cast<std::size_t>(opening.local_rank)].worker = worker;
}

std::pair<HostPool::Host*, HostPool::Slot*> HostPool::find_slot(Worker worker) {
  for (Host& host : hosts_) {
    const auto found = std::ranges::find(host.slots, std::optional(worker), &Slot::worker);
    if (found != host.slots.end()) return {&host, &*found};
  }
  return {nullptr, nullptr};
}

void HostPool::ended_well(Worker worker) {
  if (const auto [host, slot] = find_slot(worker); slot != nullptr) slot->worker.reset();
}

std::optional<HostPool::Banned> HostPool::failed(Worker worker, bool took_part, Time now) {
  const auto [host, slot] = find_slot(worker);
  if (slot == nullptr) return std::nullopt;
  slot->worker.reset();
  std::erase(blacklisted_, worker);
  if (blacklist_ == Blacklist::host && host->is_in_use()) {
    close(*host, blacklisted_);
    Banned banned = put_off(host->name, now);
    list_again(*host);
    return banned;
  }
  if (took_part) return std::nullopt;
  const std::optional<Duration> time = put_off(slot->ban, now);
  if (slot->closed || !host->is_in_use()) return std::nullopt;  // it is not used anyway
  return Banned{host->name, static_cast<int>(slot - host->slots.data()), time};
}

std::vector<Worker> HostPool::take_blacklisted() { return std::exchange(blacklisted_, {}); }

// As Horovod does: each failure doubles the time, and a random part of the shortest one is added.
std::optional<Duration> HostPool::put_off(Ban& ban, Time now) {
  if (!cooldown_ && blacklist_ != Blacklist::never) {
    ban.until = Time::max();
    return std::nullopt;
  }
  const Cooldown& range = cooldown_ ? *cooldown_ : kUnlisted;
  const double least = std::chrono::duration<double>(range.least).count();
  const double added = std::uniform_real_distribution(0.0, least)(random_);
  const double most = std::chrono::duration<double>(range.most).count();
  const double wanted = least * static_cast<double>(1 << std::min(ban.failures++, kMostDoublings)) + added;
  const Duration time = from_seconds(std::clamp(wanted, least, most));
  ban.until = now + time;
  return time;
}

bool HostPool::has_one_host() const {
  return std::ranges::all_of(hosts_, [&](const Host& host) { return host.name == hosts_.front().name; });
}

int HostPool::taken() const {
  int count = 0;
  for (const Host& host : hosts_)
    for (const Slot& slot : host.slots) count += slot.worker.has_value();
  return count;
}

int HostPool::staying() const {
  int count = 0;
  for (const Host& host : hosts_)
    for (const Slot& slot : host.slots) count += host.is_in_use() && !slot.closed && slot.worker.has_value();
  return count;
}

bool HostPool::may_get_more() const {
  return std::ranges::any_of(hosts_, [&](const Host& host) {
    return host.is_in_use() && std::ranges::any_of(host.slots, [&](const Slot& slot) {
             return usable_from(host, slot) < Time::max();
           });
  });
}

std::optional<Time> HostPool::next_time(Time now) const {
  std::optional<Time> next;
  for (const Host& host : hosts_) {
    if (!host.is_in_use()) continue;
    for (const Slot& slot : host.slots)
      if (const Time from = usable_from(host, slot); from > now && from < Time::max())
        next = earlier(next, from);
  }
  return next;
}

}  // namespace rueda
