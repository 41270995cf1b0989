// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/host_load.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <sstream>

#include "core/base/number.h"
#include "launcher/system/descriptor.h"

namespace rueda {
namespace {

constexpr double kBytesPerMegabit = 125'000;
constexpr double kWholeCore = 100'000;  // microseconds of a period, as most kernels have it

int cores_of_process() {
  cpu_set_t set;
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

std::string first_word(const std::string& text) {
  std::istringstream words(text);
  std::string word;
  words >> word;
  return word;
}

// "Name:  123 kB" lines, in bytes.
std::map<std::string, std::uint64_t> amounts_in(const std::string& text) {
  std::map<std::string, std::uint64_t> amounts;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    std::uint64_t kilobytes = 0;
    if (words >> name >> kilobytes) amounts[name] = kilobytes << 10;
  }
  return amounts;
}

std::uint64_t number_after(const std::string& text, const std::string& name) {
  std::istringstream lines(text);
  std::string word;
  std::uint64_t number = 0;
  while (lines >> word >> number)
    if (word == name) return number;
  return 0;
}

}  // namespace

agents::HostLoad HostLoadReader::read() {
  agents::HostLoad load;
  load.now_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                    std::chrono::steady_clock::now().time_since_epoch())
                    .count();
  read_processors(load);
  read_memory(load);
  read_cards(load);
  return load;
}

std::string HostLoadReader::text_of(const std::string& path) const { return text_of_file(root_ + path); }

// Of version 2: the folder of this process's own group.
std::string HostLoadReader::control_group() const {
  std::istringstream lines(text_of("/proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("0::")) return "/sys/fs/cgroup" + (line.size() > 4 ? line.substr(3) : "");
  return "/sys/fs/cgroup";
}

void HostLoadReader::read_processors(agents::HostLoad& load) {
  std::istringstream stat(text_of("/proc/stat"));
  std::string name;
  stat >> name;
  std::uint64_t all = 0, idle = 0;
  for (int i = 0; i < 8; ++i) {  // user nice system idle iowait irq softirq steal
    std::uint64_t ticks = 0;
    stat >> ticks;
    all += ticks;
    if (i == 3 || i == 4) idle += ticks;
  }
  const std::uint64_t busy = all - idle;
  if (all > all_before_ && busy >= busy_before_)
    load.busy = static_cast<double>(busy - busy_before_) / static_cast<double>(all - all_before_);
  load.busy = std::min(load.busy, 1.0);
  busy_before_ = busy;
  all_before_ = all;
  load.cores = cores_of_process();
  std::istringstream limit(text_of(control_group() + "/cpu.max"));
  double quota = 0, period = kWholeCore;
  if (limit >> quota >> period && quota > 0 && period > 0)
    load.cores = std::clamp(static_cast<int>(std::ceil(quota / period)), 1, std::max(1, load.cores));
  std::istringstream average(text_of("/proc/loadavg"));
  average >> load.load;
  load.load = std::isfinite(load.load) ? std::max(0.0, load.load) : 0;
}

void HostLoadReader::read_memory(agents::HostLoad& load) const {
  std::map<std::string, std::uint64_t> amounts = amounts_in(text_of("/proc/meminfo"));
  load.memory_bytes = amounts["MemTotal:"];
  load.memory_used = load.memory_bytes - std::min(load.memory_bytes, amounts["MemAvailable:"]);
  const std::string group = control_group();
  const auto limit = number_from<std::uint64_t>(first_word(text_of(group + "/memory.max")));
  if (!limit || *limit == 0 || *limit >= load.memory_bytes) return;
  const auto used = number_from<std::uint64_t>(first_word(text_of(group + "/memory.current"))).value_or(0);
  // Pages of files go where memory is needed.
  const std::uint64_t files = number_after(text_of(group + "/memory.stat"), "inactive_file");
  load.memory_bytes = *limit;
  load.memory_used = used - std::min(used, files);
}

void HostLoadReader::read_cards(agents::HostLoad& load) const {
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
    const std::string folder = "/sys/class/net/" + card.name;
    std::error_code none;
    // A pair of virtual cards has no speed of its own; the kernel says 10 Gbit/s.
    const bool is_virtual = std::filesystem::exists(root_ + "/sys/devices/virtual/net/" + card.name, none);
    const auto megabits = number_from<double>(first_word(text_of(folder + "/speed")));
    if (!is_virtual && megabits && *megabits > 0) card.limit = *megabits * kBytesPerMegabit;
    load.cards.push_back(std::move(card));
  }
}

}  // namespace rueda
