// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <utility>

#include "core/base/number.h"
#include "launcher/cli/options.h"

namespace rueda {
namespace {

using Kind = Flag::Kind;

std::string as_it_is(std::string_view, const std::string& value) { return value; }
std::string yes(std::string_view, const std::string&) { return "1"; }
std::string no(std::string_view, const std::string&) { return "0"; }

std::string bytes_of_megabytes(std::string_view flag, const std::string& value) {
  const std::optional<double> megabytes = number_from<double>(value);
  if (!megabytes || !(*megabytes >= 0 && *megabytes <= 65536))
    throw UsageError(fmt::format("--{} is '{}'; it must be a number from 0 to 65536 (MiB)", flag, value));
  return fmt::format("{}", std::llround(*megabytes * 1048576));
}

std::string lower_case(std::string_view, const std::string& value) {
  std::string text = value;
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

constexpr std::string_view kRoute = "the route is chosen from measured times, not by hand";
constexpr std::string_view kTuner = "Rueda's tuner compares measured steps and has no such number";
constexpr std::string_view kGloo = "there is no Gloo in Rueda";

constexpr std::array kFlags{
    Flag{Kind::own, "num-proc", "N", "how many ranks to start, 1 to 4096 (also -np, -n)"},
    Flag{Kind::own, "min-np", "N",
         "an elastic job: it goes on as long as N ranks are left, and starts others in place of lost ones "
         "(also --min-num-proc)"},
    Flag{Kind::own, "min-num-proc", "N", "the same"},
    Flag{Kind::own, "max-np", "N", "how many ranks it may grow to; default: -np (also --max-num-proc)"},
    Flag{Kind::own, "max-num-proc", "N", "the same"},
    Flag{Kind::own, "spares", "N",
         "how many processes wait to take the place of a lost rank at once; default: 1 where --min-np is "
         "below -np "
         "and a host has a slot for it"},
    Flag{Kind::own, "elastic-timeout", "SECONDS",
         "how long an elastic job waits while it has fewer ranks than --min-np; default: 600"},
    Flag{Kind::own, "reset-limit", "N", "end an elastic job when its ranks change for the N+1st time"},
    Flag{Kind::own, "host-discovery-script", "COMMAND",
         "an elastic job on hosts that come and go: COMMAND prints them, each on a line, as HOST or "
         "HOST:RANKS"},
    Flag{Kind::own, "discovery-interval", "SECONDS", "how often it is asked; default: 1"},
    Flag{Kind::own, "slots-per-host", "N",
         "how many ranks a host takes where COMMAND tells no number; default: 1 (also --slots)"},
    Flag{Kind::own, "slots", "N", "the same"},
    Flag{
        Kind::own, "blacklist", "host|slot|never",
        "where an elastic job starts nothing any more: on the host of a lost rank; in a slot where a process "
        "died before it took part, and on a host without an agent; or nowhere. Default: slot"},
    Flag{Kind::own, "blacklist-cooldown-range", "MIN MAX",
         "use it again after MIN seconds, twice as long after each further failure, MAX at most; default: "
         "never"},
    Flag{Kind::own, "hosts", "HOST[:RANKS],...", "where to start them; default: this machine (also -H)"},
    Flag{Kind::own, "hostfile", "FILE", "the same from a file, a line for each host: HOST [slots=RANKS]"},
    Flag{Kind::own, "virtual-hosts", "N",
         "start them on N hosts made for this job: network namespaces of this machine (root only)"},
    Flag{Kind::own, "rails", "R", "how many network cards each virtual host has, 1 to 9; default: 1"},
    Flag{Kind::own, "rate", "RATE", "the speed of each of these cards: 200mbit, 1gbit; default: no limit"},
    Flag{Kind::own, "launcher", "own|hydra",
         "who starts the ranks of other hosts: ruedarun itself, by ssh or srun, or Hydra's mpiexec"},
    Flag{Kind::own, "remote-shell", "COMMAND",
         "in place of ssh: COMMAND HOST WORDS... runs the words on that host, with standard input (also "
         "RUEDA_REMOTE_SHELL)"},
    Flag{
        Kind::own, "bind", "none|core|socket",
        "bind each rank to its share of the cores, or to the socket of that share, where the ranks of a host "
        "divide its cores evenly; default: core"},
    Flag{Kind::own, "ssh-port", "PORT", "how to reach the hosts (also -p)"},
    Flag{Kind::own, "ssh-identity-file", "FILE", "how to reach the hosts (also -i)"},
    Flag{Kind::own, "network-interface", "CARD",
         "the card over which hosts talk (also --network-interfaces)"},
    Flag{Kind::own, "network-interfaces", "CARD", "the same"},
    Flag{Kind::own, "output-filename", "DIR",
         "also write what each rank prints to DIR/rank.N/stdout and DIR/rank.N/stderr"},
    Flag{Kind::own, "output", "RANKS", "show the output of these ranks only: 0,4-7"},
    Flag{Kind::own, "label", "none|rank|host", "put [rank] or [host:rank] before each line; default: rank"},
    Flag{Kind::own, "no-prefix", "", "the same as --label none"},
    Flag{Kind::own, "tty", "auto|always|never",
         "whether rank 0 has a terminal of its own; default: auto, where standard input, output and error "
         "are one"},
    Flag{Kind::own, "prefix-output-with-timestamp", "", "put the time there, too (also -prefix-timestamp)"},
    Flag{Kind::own, "config-file", "YAML", "flags from a file in horovodrun's form; those given here win"},
    Flag{Kind::own, "page", "[HOST:]PORT",
         "serve the live page of the job there, 0: on a free port; it is on 127.0.0.1 and a free port unless "
         "this says "
         "otherwise, and who has its address with the token can see the job; needs no other program"},
    Flag{Kind::own, "no-page", "", "no page, no --status, no --stacks and no --dump"},
    Flag{Kind::own, "dump-folder", "FOLDER",
         "write such a dump (--dump) into a new folder there when a rank is lost, and when ranks wait for "
         "others in vain"},
    Flag{Kind::own, "stop-after", "TIME",
         "send SIGTERM to the ranks after 90s, 10m, 2h, so that they may save and end (--grace); they decide "
         "the status"},
    Flag{Kind::own, "grace", "TIME",
         "how long ranks may take from SIGTERM to their end, so that they can save; default: 30s, and 5s "
         "after "
         "Ctrl-C"},
    Flag{Kind::own, "stop-grace", "TIME", "the same"},
    Flag{Kind::own, "mpi-args", "WORDS", "more words for mpiexec, with --launcher hydra"},
    Flag{Kind::own, "binding-args", "WORDS", "the same"},
    Flag{Kind::own, "tcp", "",
         "MPI of the program itself over TCP, even where the environment chooses something else"},
    Flag{Kind::own, "mpi", "", "accepted for scripts of horovodrun; RUEDA_NETWORK=mpi chooses MPI for data"},
    Flag{Kind::own, "verbose", "",
         "show how the job is started, and to which cores ranks are bound; with --stacks all threads"},
    Flag{Kind::own, "version", "", "print the version (also -v)"},
    Flag{Kind::own, "help", "", "print this text (also -h)"},
    Flag{Kind::own, "print-config", "", "print every setting, its value and where that comes from"},
    Flag{Kind::own, "check-build", "", "print what this Rueda was built with (also -cb)"},
    Flag{Kind::own, "doctor", "",
         "look for what breaks jobs on this host or all hosts of -H, --hostfile or an allocation: memory, "
         "limits, clocks, names, connections, versions. Each line has a state and a remedy. With -np N and "
         "PROGRAM it looks at these, too. The exit status is 1 after an error"},
    Flag{Kind::own, "status", "",
         "show a running job of this user: --status [PID], with ruedarun's process number; without it the "
         "only job, or a "
         "list of all"},
    Flag{Kind::own, "report", "FILE.html",
         "write one page that loads nothing: with SUMMARY.json files a comparison of these runs, with -np N "
         "PROGRAM the page of that job as of its end"},
    Flag{Kind::own, "labels", "NAME...", "behind the summaries of --report: their names, in order"},
    Flag{Kind::own, "stacks", "",
         "show where each rank of a running job is, in Python and C++: --stacks [PID], as --status; ranks "
         "whose main threads are at the same place are one group, and the smallest group comes first; with "
         "--verbose all threads"},
    Flag{Kind::own, "dump", "",
         "write down what each rank of a running job of this user is doing, and its last operations: --dump "
         "[PID], with ruedarun's process number. The new folder has job.txt for people, and files for "
         "torchfrtrace of PyTorch"},
    Flag{Kind::own, "json", "", "print it as JSON: with --doctor, --status or --stacks"},
    Flag{Kind::own, "merge-timeline", "OUT",
         "make one timeline OUT of the FILES that ranks have written; starts nothing"},

    Flag{Kind::setting, "fusion-threshold-mb", "MIB", "", "FUSION_THRESHOLD", bytes_of_megabytes},
    Flag{Kind::setting, "cycle-time-ms", "MS", "", "CYCLE_TIME", as_it_is},
    Flag{Kind::setting, "cache-capacity", "N", "", "CACHE_CAPACITY", as_it_is},
    Flag{Kind::setting, "start-timeout", "SECONDS", "", "START_TIMEOUT", as_it_is},
    Flag{Kind::setting, "autotune", "", "", "AUTOTUNE", yes},
    Flag{Kind::setting, "no-autotune", "", "", "AUTOTUNE", no},
    Flag{Kind::setting, "autotune-log-file", "FILE", "", "AUTOTUNE_LOG", as_it_is},
    Flag{Kind::setting, "autotune-warmup-samples", "N", "", "AUTOTUNE_WARMUP_SAMPLES", as_it_is},
    Flag{Kind::setting, "autotune-steps-per-sample", "N", "", "AUTOTUNE_STEPS_PER_SAMPLE", as_it_is},
    Flag{Kind::setting, "autotune-bayes-opt-max-samples", "N", "", "AUTOTUNE_CANDIDATES", as_it_is},
    Flag{Kind::setting, "timeline-filename", "FILE", "", "TIMELINE", as_it_is},
    Flag{Kind::setting, "timeline-mark-cycles", "", "", "TIMELINE_MARK_CYCLES", yes},
    Flag{Kind::setting, "no-timeline-mark-cycles", "", "", "TIMELINE_MARK_CYCLES", no},
    Flag{Kind::setting, "stall-check", "", "", "STALL_CHECK_DISABLE", no},
    Flag{Kind::setting, "no-stall-check", "", "", "STALL_CHECK_DISABLE", yes},
    Flag{Kind::setting, "stall-check-warning-time-seconds", "SECONDS", "", "STALL_CHECK_TIME", as_it_is},
    Flag{Kind::setting, "stall-check-shutdown-time-seconds", "SECONDS", "", "STALL_SHUTDOWN_TIME", as_it_is},
    Flag{Kind::setting, "num-nccl-streams", "N", "", "NUM_NCCL_STREAMS", as_it_is},
    Flag{Kind::setting, "hierarchical-allreduce", "", "", "NCCL_HIERARCHY", yes},
    Flag{Kind::setting, "no-hierarchical-allreduce", "", "", "NCCL_HIERARCHY", no},
    Flag{Kind::setting, "log-level", "LEVEL", "", "LOG_LEVEL", lower_case},
    Flag{Kind::setting, "log-with-timestamp", "", "", "LOG_HIDE_TIME", no},
    Flag{Kind::setting, "log-without-timestamp", "", "", "LOG_HIDE_TIME", yes},
    Flag{Kind::setting, "no-log-hide-timestamp", "", "", "LOG_HIDE_TIME", no},
    Flag{Kind::setting, "log-hide-timestamp", "", "", "LOG_HIDE_TIME", yes},

    Flag{Kind::ignored, "thread-affinity", "CORES", "ruedarun binds each rank with all its threads"},
    Flag{Kind::ignored, "gloo", "", kGloo},
    Flag{Kind::ignored, "gloo-timeout-seconds", "N", kGloo},
    Flag{Kind::ignored, "jsrun", "", "ruedarun starts ranks by ssh, srun, blaunch or qrsh, or by Hydra"},
    Flag{Kind::ignored, "disable-cache", "", "ruedarun keeps nothing about hosts between jobs"},
    Flag{Kind::ignored, "hierarchical-allgather", "", kRoute},
    Flag{Kind::ignored, "no-hierarchical-allgather", "", kRoute},
    Flag{Kind::ignored, "torus-allreduce", "", kRoute},
    Flag{Kind::ignored, "no-torus-allreduce", "", kRoute},
    Flag{Kind::ignored, "autotune-gaussian-process-noise", "X", kTuner},
    Flag{Kind::ignored, "mpi-threads-disable", "", "Rueda's background thread needs MPI_THREAD_MULTIPLE"},
    Flag{Kind::ignored, "no-mpi-threads-disable", "", "MPI is always begun with threads"},
};

// Words that spell a flag in a way of their own: an ordinary parser would read -np as -n p.
constexpr std::array<std::pair<std::string_view, std::string_view>, 14> kSpellings{
    {{"-np", "num-proc"},
     {"-n", "num-proc"},
     {"-H", "hosts"},
     {"-hostfile", "hostfile"},
     {"-p", "ssh-port"},
     {"-i", "ssh-identity-file"},
     {"-v", "version"},
     {"-h", "help"},
     {"-cb", "check-build"},
     {"-prefix-timestamp", "prefix-output-with-timestamp"},
     {"-min-np", "min-np"},
     {"-max-np", "max-np"},
     {"-hosts", "hosts"},
     {"-f", "hostfile"}}};

}  // namespace

std::span<const Flag> flags() { return kFlags; }

const Flag* find_flag(std::string_view name) {
  const auto* found = std::ranges::find(kFlags, name, &Flag::name);
  return found == kFlags.end() ? nullptr : &*found;
}

std::string spelled_out(const std::string& word) {
  for (const auto& [spelling, name] : kSpellings)
    if (word == spelling) return fmt::format("--{}", name);
  if (word.starts_with("-n") && word.size() > 2 && std::isdigit(static_cast<unsigned char>(word[2])) != 0)
    return "--num-proc=" + word.substr(2);
  return word;
}

}  // namespace rueda
