// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/host_checks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "launcher/doctor/network_facts.h"

namespace rueda {
namespace {

using State = Finding::State;
using Verdicts = std::vector<Verdict>;

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kGiB = 1 << 30;
constexpr std::uint64_t kFewFiles = 256;                         // enough for a job of some ranks
constexpr std::uint64_t kOwnFiles = 64;                          // of a program
constexpr std::uint64_t kFilesOfRank = 16;                       // in its agent: pipes and sockets
constexpr std::uint64_t kFilesOfJob = 8, kFilesOfOtherRank = 4;  // in a rank (ops/setup/init.cc)
constexpr std::uint64_t kThreadsOfRank = 32;

std::string in_bytes(std::uint64_t bytes) {
  if (bytes < kGiB) return fmt::format("{} MiB", bytes / kMiB);
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / static_cast<double>(kGiB));
}

std::string in_words(std::uint64_t limit) {
  return limit == agents::kUnlimited ? "unlimited" : fmt::format("{}", limit);
}

// Ranks of this host: those of the job, or one for each core.
std::uint64_t ranks_of(const ExaminedHost& host) {
  return static_cast<std::uint64_t>(std::max(1, host.ranks > 0 ? host.ranks : host.facts->cores.usable));
}

std::string quoted(const std::string& word) {
  const bool plain = std::ranges::all_of(word, [](unsigned char c) {
    return std::isalnum(c) != 0 ||
           std::string_view("/._-+").find(static_cast<char>(c)) != std::string_view::npos;
  });
  if (plain) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

// A name that says this machine on each, or an address.
bool needs_no_look_up(const std::string& name) {
  return name == "localhost" || name.find_first_not_of("0123456789.") == std::string::npos ||
         name.find(':') != std::string::npos;
}

std::string line_of_hosts(const ExaminedHost& other) {
  const bool known = other.facts && !other.facts->network.cards.empty();
  return fmt::format("{} {}", known ? other.facts->network.cards.front().address : "ADDRESS", other.name);
}

}  // namespace

Verdicts check_shared_memory(const ExaminedHost& host, const Examination&) {
  const agents::MemoryFacts& memory = host.facts->memory;
  Verdicts all;
  if (!memory.shm_problem.empty())
    all.push_back({State::error, fmt::format("Memory cannot be made in /dev/shm ({}).", memory.shm_problem),
                   "Make room there, or `mount -t tmpfs tmpfs /dev/shm`; in a container, --shm-size=8g."});
  if (!memory.memfd_problem.empty())
    all.push_back({State::error, fmt::format("Ranks cannot make shared memory ({}).", memory.memfd_problem),
                   "Allow memfd_create in the container's profile, or export RUEDA_SHM=0."});
  if (!all.empty()) return all;
  const std::string sizes =
      fmt::format("/dev/shm has {}, {} free", in_bytes(memory.shm_bytes), in_bytes(memory.shm_free));
  if (memory.shm_bytes < kGiB)
    return {{State::warning, fmt::format("{}; data loaders and MPI may need more.", sizes),
             "`mount -o remount,size=8g /dev/shm`; in a container, --shm-size=8g."}};
  if (memory.shm_free < 256 * kMiB)
    return {{State::warning, fmt::format("{}; data loaders and MPI may need more.", sizes),
             "Look for old files: `ls -lS /dev/shm`."}};
  return {{State::ok, fmt::format("{}, and memory can be made there.", sizes)}};
}

Verdicts check_memory(const ExaminedHost& host, const Examination&) {
  const agents::MemoryFacts& memory = host.facts->memory;
  std::uint64_t left = memory.available;
  std::string limit;
  if (memory.cgroup_limit != 0) {
    left = std::min(left, memory.cgroup_limit - std::min(memory.cgroup_used, memory.cgroup_limit));
    limit = fmt::format(", and the control group allows {}, {} of it in use", in_bytes(memory.cgroup_limit),
                        in_bytes(memory.cgroup_used));
  }
  const std::string sentence = fmt::format("It has {} of memory, {} available{}.", in_bytes(memory.installed),
                                           in_bytes(memory.available), limit);
  if (left >= kGiB) return {{State::ok, sentence}};
  return {{State::warning, sentence,
           memory.cgroup_limit == 0 ? "End what takes it: `ps aux --sort -rss | head`."
                                    : "Ask for more, as by --mem of Slurm or --memory of Docker."}};
}

// Of the machine, not of a container: nobody there can turn them on.
Verdicts check_huge_pages(const ExaminedHost& host, const Examination&) {
  const std::string& chosen = host.facts->memory.huge_pages;
  if (chosen.empty()) return {};
  if (chosen != "never" || host.facts->processes.in_container)
    return {{State::ok, fmt::format("Transparent huge pages: {}.", chosen)}};
  return {{State::warning, "Transparent huge pages are off, so large tensors take longer to move.",
           "`echo madvise > /sys/kernel/mm/transparent_hugepage/enabled` as root."}};
}

Verdicts check_cores(const ExaminedHost& host, const Examination&) {
  const agents::CoreFacts& cores = host.facts->cores;
  const std::string physical =
      cores.physical == 0 || cores.physical == cores.usable
          ? ""
          : fmt::format(", {} without second threads of the same core", cores.physical);
  const std::string nodes = cores.numa_nodes == 0 ? ""
                                                  : fmt::format(", on {} NUMA node{}", cores.numa_nodes,
                                                                cores.numa_nodes == 1 ? "" : "s");
  const std::string sentence =
      fmt::format("{} of {} cores can be used{}{}", cores.usable, cores.online, physical, nodes);
  const bool is_limited = cores.cgroup_millicores != 0 && cores.cgroup_millicores < 1000 * cores.usable;
  const bool fits = host.ranks > 0 && 1000LL * host.ranks <= cores.cgroup_millicores;
  if (is_limited && fits)
    return {{State::ok, fmt::format("{}; the control group gives the time of {:.1f}.", sentence,
                                    cores.cgroup_millicores / 1000.0)}};
  if (is_limited)
    return {{State::warning,
             fmt::format("{}, but the control group gives the time of {:.1f}.", sentence,
                         cores.cgroup_millicores / 1000.0),
             "Ask for whole cores, as by --cpuset-cpus of Docker; ranks that wait for others take time."}};
  if (host.ranks > cores.usable)
    return {{State::warning, fmt::format("{}, and it gets {} ranks.", sentence, host.ranks),
             "Start fewer ranks there: -H HOST:RANKS."}};
  return {{State::ok, sentence + "."}};
}

Verdicts check_clock_source(const ExaminedHost& host, const Examination&) {
  constexpr std::array<std::string_view, 4> kSlow{"hpet", "acpi_pm", "jiffies", "refined-jiffies"};
  const std::string& source = host.facts->cores.clock_source;
  if (source.empty()) return {};
  if (std::ranges::find(kSlow, source) == kSlow.end())
    return {{State::ok, fmt::format("The clock source is {}.", source)}};
  return {{State::warning, fmt::format("The clock source is {}, and each look at the clock is slow.", source),
           "`echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource` as root."}};
}

// The agent and each rank raise their limit to the hard one by themselves.
Verdicts check_open_files(const ExaminedHost& host, const Examination& job) {
  const std::uint64_t most = host.facts->processes.open_files.hard;
  std::uint64_t size = 0;
  for (const ExaminedHost& each : job.hosts) size += static_cast<std::uint64_t>(each.ranks);
  const std::uint64_t of_agent = kOwnFiles + kFilesOfRank * static_cast<std::uint64_t>(host.ranks);
  const std::uint64_t of_rank = kOwnFiles + kFilesOfJob + kFilesOfOtherRank * size;
  const std::uint64_t needed = size == 0 ? kFewFiles : std::max(of_agent, of_rank);
  const std::string sentence = fmt::format("A process may have {} files open", in_words(most));
  if (most >= needed) return {{State::ok, sentence + "."}};
  return {{State::error, fmt::format("{}; this job may need {}.", sentence, needed),
           "A line `* hard nofile 65536` in its /etc/security/limits.conf; `ulimit -Hn` there tells the "
           "limit."}};
}

Verdicts check_processes(const ExaminedHost& host, const Examination&) {
  const agents::ProcessFacts& facts = host.facts->processes;
  const std::uint64_t needed = kThreadsOfRank * ranks_of(host);
  const auto state = [&](std::uint64_t left) {
    if (left >= needed) return State::ok;
    return left < ranks_of(host) ? State::error : State::warning;
  };
  const std::uint64_t left_in_group = facts.cgroup_limit - std::min(facts.cgroup_limit, facts.cgroup_used);
  if (facts.cgroup_limit != 0 && state(left_in_group) != State::ok)
    return {{state(left_in_group),
             fmt::format("The control group allows {} processes and threads, and has {}; this job may need "
                         "{}.",
                         facts.cgroup_limit, facts.cgroup_used, needed),
             "Ask for more, as by --pids-limit of Docker or TasksMax of systemd."}};
  const std::uint64_t most = facts.processes.soft;
  const std::uint64_t left = most - std::min(most, facts.threads_of_user);
  if (facts.is_root || most == agents::kUnlimited || state(left) == State::ok)
    return {{State::ok, fmt::format("The limit of processes and threads is {}.",
                                    facts.is_root ? "none, for root" : in_words(most))}};
  return {{state(left),
           fmt::format("This user may have {} processes and threads, and has {}; this job may need {}.", most,
                       facts.threads_of_user, needed),
           "`ulimit -u 65536` before ruedarun; for all logins, a line `* - nproc 65536` in "
           "/etc/security/limits.conf."}};
}

Verdicts check_locked_memory(const ExaminedHost& host, const Examination&) {
  const std::uint64_t most = host.facts->processes.locked_memory.soft;
  const std::string words = most == agents::kUnlimited ? "all its memory" : in_bytes(most);
  if (host.facts->network.infiniband == 0 || most >= kGiB)
    return {{State::ok, fmt::format("A process may lock {}.", words)}};
  return {{State::warning,
           fmt::format("A process may lock {}, and MPI and NCCL lock more for InfiniBand.", words),
           "A line `* - memlock unlimited` in /etc/security/limits.conf."}};
}

Verdicts check_core_files(const ExaminedHost& host, const Examination&) {
  const bool off = host.facts->processes.core_file.soft == 0;
  return {{State::ok, off ? "A process that crashes leaves no core file (`ulimit -c unlimited` turns it on)."
                          : "A process that crashes may leave a core file."}};
}

// Files of a container may be in use in another one that has the same /dev/shm.
Verdicts check_left_files(const ExaminedHost& host, const Examination&) {
  const agents::ProcessFacts& facts = host.facts->processes;
  if (facts.left_files.empty()) return {{State::ok, "No job that has ended left files in /dev/shm."}};
  std::vector<std::string> names;
  for (const std::string& file : facts.left_files) names.push_back(quoted(file));
  const bool one = facts.left_count == 1;
  const std::string files = fmt::format("{}", fmt::join(names, " "));
  return {{State::warning,
           fmt::format("{} file{} of jobs take{} {} of /dev/shm, and no process that can be seen from there "
                       "uses {}.",
                       facts.left_count, one ? "" : "s", one ? "s" : "", in_bytes(facts.left_bytes),
                       one ? "it" : "them"),
           facts.sees_all ? fmt::format("`rm {}` there.", files)
                          : fmt::format("`lsof {}` on the host of the container tells if one uses {}.", files,
                                        one ? "it" : "them")}};
}

Verdicts check_names(const ExaminedHost& host, const Examination& job) {
  if (job.hosts.size() < 2) return {};
  Verdicts all;
  for (const agents::NameFacts& found : host.facts->network.names) {
    const auto named = std::ranges::find(job.hosts, found.name, &ExaminedHost::name);
    if (named == job.hosts.end() || needs_no_look_up(found.name)) continue;
    const ExaminedHost& other = *named;
    const bool is_own = &other == &host;
    const auto loopback = std::ranges::find_if(found.addresses, is_loopback);
    if (!found.problem.empty())
      all.push_back({State::warning,
                     fmt::format("It finds no address of {} ({}); torch and MPI may look for it.", other.name,
                                 found.problem),
                     fmt::format("A line `{}` in its /etc/hosts.", line_of_hosts(other))});
    else if (loopback != found.addresses.end())
      all.push_back({is_own ? State::warning : State::error,
                     fmt::format("It takes {} for {}, {}.", other.name, *loopback,
                                 is_own ? "which others cannot reach" : "which is itself"),
                     fmt::format("Replace the line `{} {}` by `{}` in its /etc/hosts.", *loopback, other.name,
                                 line_of_hosts(other))});
  }
  if (const int left = host.facts->network.names_left; left > 0)
    all.push_back({State::warning, fmt::format("Names take long here ({} not looked up).", left),
                   "Look at the name servers in its /etc/resolv.conf, or list the hosts in /etc/hosts."});
  if (all.empty()) all.push_back({State::ok, "It finds the addresses of all hosts by their names."});
  return all;
}

// Ranks on several hosts use all cards that are chosen.
Verdicts check_cards(const ExaminedHost& host, const Examination& job) {
  if (job.hosts.size() < 2) return {};
  const agents::NetworkFacts& network = host.facts->network;
  Verdicts all;
  for (const std::string& card : network.absent_cards)
    all.push_back({State::error,
                   fmt::format("There is no network card {} that is up and has an address, and RUEDA_RAILS "
                               "names it.",
                               card),
                   fmt::format("Bring it up: `ip link set {} up`; or leave it out of RUEDA_RAILS.", card)});
  for (const agents::CardFacts& card : network.cards)
    if (card.port == 0)
      all.push_back({State::error, fmt::format("Nothing can listen at {} ({}).", card.address, card.name),
                     "Name other cards by RUEDA_RAILS; `ip address` there lists them."});
  if (network.cards.empty() && all.empty())
    all.push_back({State::error, "No network card is up and has an address.",
                   "Bring one up: `ip link set eth0 up`; or name one of those there by RUEDA_RAILS."});
  return all;
}

// MPI is loaded only by a job over MPI.
Verdicts check_libraries(const ExaminedHost& host, const Examination& job) {
  const agents::SoftwareFacts& software = host.facts->software;
  Verdicts all;
  const bool is_missing = software.mpi.starts_with("cannot");
  if (is_missing && job.network == "mpi")
    all.push_back({State::warning, fmt::format("The MPI library {}.", software.mpi),
                   "Install the MPI that Rueda was built with (`ruedarun --check-build`)."});
  else
    all.push_back({State::ok, is_missing ? fmt::format("Without MPI ({}).", software.mpi)
                                         : fmt::format("MPI: {}.", software.mpi)});
  for (const std::string& device : software.devices) {
    const bool is_there = device.starts_with("[X] ");
    const std::string words = device.starts_with("[") && device.size() > 4 ? device.substr(4) : device;
    all.push_back({State::ok, fmt::format("{}{}.", is_there ? "" : "Without ", words)});
  }
  return all;
}

Verdicts check_facts(const ExaminedHost& host, const Examination&) {
  Verdicts all;
  for (const std::string& problem : host.facts->problems)
    all.push_back({State::warning, fmt::format("A part of it could not be examined: {}.", problem),
                   "Look at `dmesg`, and at the limits of processes and memory."});
  return all;
}

Verdicts check_program_there(const ExaminedHost& host, const Examination& job) {
  if (job.program.empty()) return {};
  const agents::SoftwareFacts& software = host.facts->software;
  if (!software.folder_problem.empty())
    return {{State::error,
             fmt::format("The working folder {} cannot be used ({}).", job.folder, software.folder_problem),
             fmt::format("Start the job in a folder that all hosts share, or `mkdir -p {}` there.",
                         quoted(job.folder))}};
  if (!software.program_problem.empty())
    return {{State::error, fmt::format("PROGRAM: {}.", software.program_problem),
             "Put it at the same path on each host, or into a folder that all share."}};
  return {{State::ok, fmt::format("{} is there.", job.program.front())}};
}

Verdicts check_python(const ExaminedHost& host, const Examination& job) {
  const agents::SoftwareFacts& software = host.facts->software;
  if (software.python.empty() && software.python_problem.empty()) return {};
  const std::string remedy =
      fmt::format("Try `{} -c 'import torch, rueda.torch'` there, and install the rest.",
                  job.program.empty() ? "python" : quoted(job.program.front()));
  if (!software.python_problem.empty())
    return {{State::error, fmt::format("PROGRAM's Python: {}.", software.python_problem), remedy}};
  if (software.python_rueda.empty())
    return {{State::warning, fmt::format("PROGRAM's Python {} has no module rueda.", software.python),
             "`pip install` the wheel of Rueda there, or set PYTHONPATH."}};
  return {{State::ok,
           fmt::format("PROGRAM's Python imports rueda ({}) and {}.", software.python_rueda,
                       software.python_torch.empty() ? "has no torch" : "torch " + software.python_torch)}};
}

}  // namespace rueda
