// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/environment.h"

#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>
#include <string_view>
#include <thread>

#include "launcher/system/descriptor.h"

namespace rueda {
namespace {

// Of Hydra, Slurm's PMI or another launcher around ruedarun, or of ruedarun itself: they tell of processes
// that are not ranks of this job.
bool is_of_another_launcher(std::string_view name) {
  constexpr std::array<std::string_view, 5> kBeginnings{"PMI_", "PMIX_", "HYDI_", "MPI_LOCAL",
                                                        "RUEDA_LAUNCH_"};
  return name == "RUEDA_AGENT_LINE" || name == "RUEDA_WORKER" || name == "RUEDA_ONE_HOST" ||
         name == "RUEDA_ROBUST_FUTEX" || name == "RUEDA_JOB" || name == "HOROVOD_ELASTIC" ||
         std::ranges::any_of(kBeginnings, [&](std::string_view begin) { return name.starts_with(begin); });
}

std::string_view name_of(std::string_view entry) { return entry.substr(0, entry.find('=')); }

}  // namespace

int threads_for_each(int local_size) {
  cpu_set_t usable;
  int cores = ::sched_getaffinity(0, sizeof usable, &usable) == 0
                  ? CPU_COUNT(&usable)
                  : static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, cores / std::max(1, local_size));
}

std::vector<std::string> job_environment() {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (!is_of_another_launcher(name_of(*entry))) all.emplace_back(*entry);
  // Of MPICH's two network modules ucx crashes on a send to a dead rank; ofi over tcp returns an error.
  // Python would hold back its output into a pipe, and lose it where it dies.
  return rank_environment(
      all, {}, {{"MPIR_CVAR_CH4_NETMOD", "ofi"}, {"FI_PROVIDER", "tcp"}, {"PYTHONUNBUFFERED", "1"}});
}

namespace {

// One that the system gives, so the next program that asks gets another.
int free_port() {
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof address;
  auto* const general = reinterpret_cast<sockaddr*>(&address);
  const bool bound = socket && ::bind(socket.number(), general, size) == 0 &&
                     ::getsockname(socket.number(), general, &size) == 0;
  constexpr int kOfTorch = 29500;
  return bound ? ntohs(address.sin_port) : kOfTorch;
}

}  // namespace

EnvironmentMap master_address(const std::string& first_host, bool one_host) {
  return {{"MASTER_ADDR", one_host ? "127.0.0.1" : first_host}, {"MASTER_PORT", std::to_string(free_port())}};
}

namespace {

EnvironmentMap variables_of(const SlotInfo& slot, const std::string& host) {
  EnvironmentMap variables{{"HOROVOD_HOSTNAME", host}};
  for (const std::string beginning : {"RUEDA_", "HOROVOD_"}) {
    variables[beginning + "RANK"] = std::to_string(slot.rank);
    variables[beginning + "SIZE"] = std::to_string(slot.size);
    variables[beginning + "LOCAL_RANK"] = std::to_string(slot.local_rank);
    variables[beginning + "LOCAL_SIZE"] = std::to_string(slot.local_size);
    variables[beginning + "CROSS_RANK"] = std::to_string(slot.cross_rank);
    variables[beginning + "CROSS_SIZE"] = std::to_string(slot.cross_size);
  }
  return variables;
}

}  // namespace

EnvironmentMap rank_variables(const SlotInfo& slot, const std::string& host) {
  EnvironmentMap variables = variables_of(slot, host);
  variables["PMI_RANK"] = std::to_string(slot.rank);
  variables["PMI_SIZE"] = std::to_string(slot.size);
  variables["MPI_LOCALRANKID"] = std::to_string(slot.local_rank);
  variables["MPI_LOCALNRANKS"] = std::to_string(slot.local_size);
  return variables;
}

EnvironmentMap worker_variables(const SlotInfo& slot, const std::string& host, bool one_host) {
  SlotInfo as_rank = slot;
  as_rank.rank = std::min(slot.rank, slot.size - 1);
  EnvironmentMap variables = variables_of(as_rank, host);
  variables["RUEDA_WORKER"] = std::to_string(slot.rank);
  variables["RUEDA_ONE_HOST"] = one_host ? "1" : "0";
  variables["HOROVOD_ELASTIC"] = "1";
  return variables;
}

std::vector<std::string> rank_environment(const std::vector<std::string>& job, const EnvironmentMap& own,
                                          const EnvironmentMap& defaults) {
  std::vector<std::string> all;
  std::set<std::string_view> there;
  for (const std::string& entry : job) {
    there.insert(name_of(entry));
    if (!own.contains(std::string(name_of(entry)))) all.push_back(entry);
  }
  for (const auto& [name, value] : own) all.push_back(name + "=" + value);
  for (const auto& [name, value] : defaults)
    if (!there.contains(name) && !own.contains(name)) all.push_back(name + "=" + value);
  return all;
}

}  // namespace rueda
