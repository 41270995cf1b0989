// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/environment.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <sstream>
#include <string_view>
#include <thread>

namespace rueda {
namespace {

constexpr const char* kHosts = "RUEDA_LAUNCH_HOSTS";
constexpr const char* kAddresses = "RUEDA_LAUNCH_ADDRESSES";
constexpr const char* kToken = "RUEDA_LAUNCH_TOKEN";
constexpr const char* kSignals = "RUEDA_LAUNCH_SIGNALS";

constexpr int kKeep = 0;
constexpr int kReplace = 1;

std::string text_of(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

int number_of(const char* variable, int otherwise) {
  std::string text = text_of(variable);
  int value = otherwise;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

void put(const char* variable, int value) { ::setenv(variable, std::to_string(value).c_str(), kReplace); }

// The host of every rank, as an index into `slots`.
std::vector<std::size_t> hosts_of_ranks(int size, const std::vector<int>& slots) {
  std::vector<std::size_t> hosts;
  for (std::size_t host = 0; hosts.size() < static_cast<std::size_t>(size); host = (host + 1) % slots.size())
    hosts.insert(hosts.end(), static_cast<std::size_t>(std::max(1, slots[host])), host);
  hosts.resize(static_cast<std::size_t>(size));
  return hosts;
}

Place place_from_slots(const HydraPlace& hydra, const std::vector<int>& slots) {
  std::vector<std::size_t> hosts = hosts_of_ranks(hydra.size, slots);
  std::size_t mine = hosts[static_cast<std::size_t>(hydra.rank)];
  Place place{.rank = hydra.rank, .size = hydra.size};
  place.local_rank = static_cast<int>(std::count(hosts.begin(), hosts.begin() + hydra.rank, mine));
  place.cross_size = 0;
  for (std::size_t host = 0; host < slots.size(); ++host) {
    int ranks = static_cast<int>(std::count(hosts.begin(), hosts.end(), host));
    if (host == mine) place.local_size = ranks;
    if (ranks <= place.local_rank) continue;
    ++place.cross_size;
    if (host < mine) ++place.cross_rank;
  }
  return place;
}

}  // namespace

std::vector<int> slots_of(const std::string& hosts) {
  std::vector<int> slots;
  std::istringstream list(hosts);
  for (std::string host; std::getline(list, host, ',');) {
    std::size_t colon = host.rfind(':');
    int ranks = 1;
    if (colon != std::string::npos)
      std::from_chars(host.data() + colon + 1, host.data() + host.size(), ranks);
    slots.push_back(ranks);
  }
  return slots;
}

Place place_of(const HydraPlace& hydra, const std::vector<int>& slots) {
  if (!slots.empty()) {
    Place place = place_from_slots(hydra, slots);
    if (place.local_rank == hydra.local_rank && place.local_size == hydra.local_size) return place;
  }
  Place place{hydra.rank, hydra.size, hydra.local_rank, hydra.local_size, 0, 1};
  place.cross_size = std::max(1, (hydra.size + hydra.local_size - 1) / std::max(1, hydra.local_size));
  bool block_by_block = hydra.rank % hydra.local_size == hydra.local_rank;
  place.cross_rank = block_by_block ? hydra.rank / hydra.local_size : hydra.rank % place.cross_size;
  return place;
}

int threads_for_each(int local_size) {
  cpu_set_t usable;
  int cores = ::sched_getaffinity(0, sizeof usable, &usable) == 0
                  ? CPU_COUNT(&usable)
                  : static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, cores / std::max(1, local_size));
}

void export_choices(const LaunchOptions& options) {
  for (const auto& [name, given] : options.settings)
    ::setenv(("RUEDA_" + name).c_str(), given.text.c_str(), kReplace);
  if (options.tcp) {
    ::setenv("MPIR_CVAR_CH4_NETMOD", "ofi", kReplace);
    ::setenv("FI_PROVIDER", "tcp", kReplace);
  }
  if (!options.network_interface.empty())
    ::setenv("FI_TCP_IFACE", options.network_interface.c_str(), kReplace);
  if (options.ssh_words.empty()) return;
  const std::string words = text_of("HYDRA_LAUNCHER_EXTRA_ARGS") + options.ssh_words;
  ::setenv("HYDRA_LAUNCHER_EXTRA_ARGS", words.c_str(), kReplace);
}

void export_job_environment(const std::string& hosts, const std::string& addresses, const Token& token,
                            const SignalState& signals) {
  // Of MPICH's two network modules ucx crashes on a send to a dead rank; ofi over tcp returns an error.
  ::setenv("MPIR_CVAR_CH4_NETMOD", "ofi", kKeep);
  ::setenv("FI_PROVIDER", "tcp", kKeep);
  // Python would hold back what it prints into a pipe, and lose it where it dies.
  ::setenv("PYTHONUNBUFFERED", "1", kKeep);
  ::setenv(kHosts, hosts.c_str(), kReplace);
  ::setenv(kAddresses, addresses.c_str(), kReplace);
  ::setenv(kToken, to_text(token).c_str(), kReplace);
  ::setenv(kSignals, to_text(signals).c_str(), kReplace);
}

Place export_rank_environment() {
  HydraPlace hydra{number_of("PMI_RANK", 0), number_of("PMI_SIZE", 1), number_of("MPI_LOCALRANKID", 0), 1};
  hydra.local_size = std::max(1, number_of("MPI_LOCALNRANKS", 1));
  Place place = place_of(hydra, slots_of(text_of(kHosts)));
  put("RUEDA_RANK", place.rank);
  put("RUEDA_SIZE", place.size);
  put("RUEDA_LOCAL_RANK", place.local_rank);
  put("RUEDA_LOCAL_SIZE", place.local_size);
  put("RUEDA_CROSS_RANK", place.cross_rank);
  put("RUEDA_CROSS_SIZE", place.cross_size);
  ::setenv("OMP_NUM_THREADS", std::to_string(threads_for_each(place.local_size)).c_str(), kKeep);
  return place;
}

Supervision take_supervision() {
  Supervision supervision{text_of(kAddresses), token_from(text_of(kToken)),
                          signal_state_from(text_of(kSignals)).value_or(SignalState{})};
  for (const char* variable : {kAddresses, kToken, kHosts, kSignals}) ::unsetenv(variable);
  return supervision;
}

}  // namespace rueda
