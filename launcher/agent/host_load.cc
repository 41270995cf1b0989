// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/host_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <utility>

#include "core/base/number.h"
#include "launcher/system/descriptor.h"

namespace rueda {
namespace {

constexpr double kBytesPerMegabit = 125'000;
constexpr std::int64_t kBetweenRareReadings = 1'000'000'000;  // nanoseconds

struct Ticks {
  std::uint64_t busy = 0, all = 0;
};

Ticks ticks_in(std::istringstream& words) {
  Ticks ticks;
  for (int i = 0; i < 8; ++i) {  // user nice system idle iowait irq softirq steal
    std::uint64_t each = 0;
    words >> each;
    ticks.all += each;
    if (i != 3 && i != 4) ticks.busy += each;
  }
  return ticks;
}

// Of these processors; of the machine where their lines are not there.
Ticks ticks_of(const std::set<int>& processors, const std::string& stat) {
  Ticks sum, machine;
  std::istringstream lines(stat);
  for (std::string line, name; std::getline(lines, line) && line.starts_with("cpu");) {
    std::istringstream words(line);
    words >> name;
    const Ticks ticks = ticks_in(words);
    if (name == "cpu") machine = ticks;
    const auto number = number_from<int>(std::string_view(name).substr(3));
    if (!number || !processors.contains(*number)) continue;
    sum.busy += ticks.busy;
    sum.all += ticks.all;
  }
  return sum.all > 0 ? sum : machine;
}

std::string first_word(const std::string& text) {
  std::istringstream words(text);
  std::string word;
  words >> word;
  return word;
}

}  // namespace

agents::HostLoad HostLoadReader::read() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return read(usable_processors(), std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

agents::HostLoad HostLoadReader::read(const std::set<int>& processors, std::int64_t now_ns) {
  agents::HostLoad load;
  load.now_ns = now_ns;
  if (!rare_.at_ns || now_ns >= *rare_.at_ns + kBetweenRareReadings) read_rare(now_ns);
  read_processors(load, processors);
  if (rare_.limits.millicores > 0 && rare_.limits.millicores < 1000 * load.cores) show_limited(load);
  show_memory(load);
  read_cards(load);
  return load;
}

// Many files, and the kernel may have many connections to tell of. Speeds are of this machine, also in tests.
void HostLoadReader::read_rare(std::int64_t now_ns) {
  rare_.at_ns = now_ns;
  rare_.limits = own_limits(root_);
  rare_.busy = busy_of_limit(now_ns);
  rare_.memory = machine_memory(root_);
  rare_.load = number_from<double>(first_word(text_of("/proc/loadavg"))).value_or(0);
  rare_.load = std::isfinite(rare_.load) ? std::max(0.0, rare_.load) : 0;
  rare_.card_limits.clear();
  rare_.speeds = traffic_.speeds(tcp_connections(), cards_by_address(), now_ns);
}

std::string HostLoadReader::text_of(const std::string& path) const { return text_of_file(root_ + path); }

void HostLoadReader::read_processors(agents::HostLoad& load, const std::set<int>& processors) {
  const Ticks ticks = ticks_of(processors, text_of("/proc/stat"));
  if (ticks.all > all_before_ && ticks.busy >= busy_before_)
    load.busy = static_cast<double>(ticks.busy - busy_before_) / static_cast<double>(ticks.all - all_before_);
  load.busy = std::min(load.busy, 1.0);
  busy_before_ = ticks.busy;
  all_before_ = ticks.all;
  load.cores = static_cast<int>(processors.size());
  load.load = rare_.load;
}

// Since the reading before.
double HostLoadReader::busy_of_limit(std::int64_t now_ns) {
  const Usage usage{rare_.limits.cpu_microseconds, now_ns};
  const Usage before = std::exchange(usage_before_, usage).value_or(usage);
  if (rare_.limits.millicores == 0 || before.microseconds == 0) return 0;
  if (usage.at_ns <= before.at_ns || usage.microseconds < before.microseconds) return 0;
  const double used = static_cast<double>(usage.microseconds - before.microseconds) * 1e3;
  const double cores = rare_.limits.millicores * 1e-3;
  return std::min(1.0, used / (cores * static_cast<double>(usage.at_ns - before.at_ns)));
}

void HostLoadReader::show_limited(agents::HostLoad& load) const {
  load.cores = std::max(1, static_cast<int>(std::ceil(rare_.limits.millicores * 1e-3)));
  if (rare_.limits.cpu_microseconds > 0) load.busy = rare_.busy;
}

void HostLoadReader::show_memory(agents::HostLoad& load) const {
  const MachineMemory& memory = rare_.memory;
  load.memory_bytes = memory.installed;
  load.memory_used = memory.installed - std::min(memory.installed, memory.available);
  if (rare_.limits.memory == 0 || rare_.limits.memory >= load.memory_bytes) return;
  load.memory_bytes = rare_.limits.memory;
  load.memory_used = rare_.limits.memory_used;
}

// A pair of virtual cards has no speed of its own; the kernel says 10 Gbit/s.
double HostLoadReader::limit_of_card(const std::string& name) const {
  std::error_code none;
  if (std::filesystem::exists(root_ + "/sys/devices/virtual/net/" + name, none)) return 0;
  const auto megabits = number_from<double>(first_word(text_of("/sys/class/net/" + name + "/speed")));
  return megabits && *megabits > 0 ? *megabits * kBytesPerMegabit : 0;
}

void HostLoadReader::read_cards(agents::HostLoad& load) {
  std::istringstream lines(text_of("/proc/net/dev"));
  for (std::string line; std::getline(lines, line) && load.cards.size() < agents::kMostCards;) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    agents::HostLoad::Card card;
    card.name = first_word(line.substr(0, colon));
    if (card.name.empty() || card.name == "lo" || card.name.size() > 64) continue;
    std::istringstream numbers(line.substr(colon + 1));
    std::array<std::uint64_t, 9> columns{};  // 0: bytes received, 8: bytes sent
    for (std::uint64_t& column : columns) numbers >> column;
    if (!numbers) continue;
    card.received_bytes = columns[0];
    card.sent_bytes = columns[8];
    const auto [limit, is_new] = rare_.card_limits.try_emplace(card.name);
    if (is_new) limit->second = limit_of_card(card.name);
    card.limit = limit->second;
    if (const auto found = rare_.speeds.find(card.name); found != rare_.speeds.end())
      card.speed = found->second.bytes_per_second;
    load.cards.push_back(std::move(card));
  }
}

}  // namespace rueda
