// SPDX-License-Identifier: Apache-2.0
#include "ops/bootstrap/launch.h"

#include <fmt/format.h>

#include <array>
#include <limits>

#include "core/base/number.h"
#include "ops/bootstrap/address/start_error.h"

namespace rueda {
namespace {

constexpr std::string_view kFile = "file:";

// The variables in which a launcher leaves the rank of a process and the number of processes.
struct Numbering {
  const char* rank;
  const char* size;
  const char* starter;
};
constexpr Numbering kOfRuedarun{"RUEDA_RANK", "RUEDA_SIZE", "ruedarun"};
constexpr Numbering kOfTorch{"RANK", "WORLD_SIZE", "torchrun"};
constexpr Numbering kOfSlurm{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "srun"};
constexpr Numbering kOfPmi{"PMI_RANK", "PMI_SIZE", "mpiexec"};
// Those that a user sets come first.
constexpr std::array kNumberings{kOfRuedarun, kOfTorch, kOfPmi, kOfSlurm,
                                 Numbering{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "mpirun"}};

// Purpose: reads one process's environment. A plain value, for the time of a call.
class Reading {
 public:
  Reading(const Config& config, const Environment& environment)
      : config_(config), environment_(environment) {}

  bool has(const char* name) const { return environment_(name) != nullptr; }
  std::string_view text(const char* name) const {
    const char* value = environment_(name);
    return value == nullptr ? std::string_view() : std::string_view(value);
  }
  bool started_by_torchrun() const {
    return numbered(kOfTorch) && has("MASTER_ADDR") && has("MASTER_PORT") && text("WORLD_SIZE") != "1";
  }
  // sbatch's own shell has the other variables, too, but belongs to no step.
  bool started_by_srun() const {
    return has("SLURM_STEP_ID") && numbered(kOfSlurm) && text(kOfSlurm.size) != "1";
  }

  // A program that a rank of ruedarun's has started has these variables too, and others.
  bool numbered_by_hand() const {
    return numbered(kOfRuedarun) && text(kOfRuedarun.size) != "1" && !has("RUEDA_LOCAL_RANK");
  }

  // The workers of an elastic job come and go, so their numbers do not tell whether all are on one host.
  Launch launcher() const {
    Launch launch = from(BootstrapMethod::launcher, kOfRuedarun, text("RUEDA_LOCAL_SIZE"));
    if (has("RUEDA_WORKER")) launch.one_host = text("RUEDA_ONE_HOST") == "1";
    return launch;
  }
  // A network that somebody has chosen for MPI is the quicker one.
  bool wants_mpi() const {
    return config_.network == "mpi" ||
           (config_.network == "auto" &&
            (text("MPIR_CVAR_CH4_NETMOD") == "ucx" ||
             (has("FI_PROVIDER") && text("FI_PROVIDER").find("tcp") == std::string_view::npos)));
  }
  Launch pmi() const;
  Launch pmix() const;
  Launch torchrun() const;
  Launch slurm() const;
  Launch store() const;
  Launch file(std::string_view folder) const;

 private:
  bool numbered(const Numbering& numbering) const { return has(numbering.rank) && has(numbering.size); }
  const Numbering& any_numbering(std::string_view method) const;
  Launch from(BootstrapMethod method, const Numbering& numbering, std::string_view ranks_here) const;
  Launch at(Launch launch, std::string_view host, std::string_view port, std::string_view words) const;

  const Config& config_;
  const Environment& environment_;
};

Launch Reading::from(BootstrapMethod method, const Numbering& numbering, std::string_view ranks_here) const {
  Launch launch;
  launch.method = method;
  launch.source = fmt::format("{} and {}", numbering.rank, numbering.size);
  if (!has(numbering.rank) && !has(numbering.size))
    cannot_start(
        fmt::format("{} and {} are not set. Start the program by {}, or choose another RUEDA_BOOTSTRAP.",
                    numbering.rank, numbering.size, numbering.starter));
  const std::optional<Rank> rank = number_from<Rank>(text(numbering.rank));
  const std::optional<Rank> size = number_from<Rank>(text(numbering.size));
  if (!rank || !size || *rank < 0 || *rank >= *size)
    cannot_start(fmt::format(
        "{}='{}' and {}='{}' are not a rank and a number of ranks above it. Set both, on every rank.",
        numbering.rank, text(numbering.rank), numbering.size, text(numbering.size)));
  launch.rank = *rank;
  launch.size = *size;
  launch.one_host = number_from<Rank>(ranks_here) == size;
  return launch;
}

const Numbering& Reading::any_numbering(std::string_view method) const {
  for (const Numbering& each : kNumberings) {
    if (numbered(each)) return each;
  }
  cannot_start(fmt::format(
      "{} needs the rank and the number of ranks. Set RUEDA_RANK and RUEDA_SIZE on every rank.", method));
}

Launch Reading::at(Launch launch, std::string_view host, std::string_view port,
                   std::string_view words) const {
  const std::optional<std::uint16_t> number = number_from<std::uint16_t>(port);
  if (host.empty() || !number || *number == 0)
    cannot_start(fmt::format("{} does not name a host and a port: '{}' and '{}'.", words, host, port));
  launch.host = host;
  launch.port = *number;
  return launch;
}

Launch Reading::torchrun() const {
  // Without its agent's store nobody listens there yet: rank 0 does.
  const bool agent = text("TORCHELASTIC_USE_AGENT_STORE") == "True";
  return at(
      from(agent ? BootstrapMethod::torchrun : BootstrapMethod::store, kOfTorch, text("LOCAL_WORLD_SIZE")),
      text("MASTER_ADDR"), text("MASTER_PORT"), "MASTER_ADDR with MASTER_PORT");
}

Launch Reading::pmi() const {
  Launch launch = from(BootstrapMethod::pmi, kOfPmi, text("MPI_LOCALNRANKS"));
  launch.one_host |= has("PMI_JOBID") && text("SLURM_STEP_NUM_NODES") == "1";  // of Slurm
  return launch;
}

// Variables of Slurm and Open MPI may be those of a step or of an mpirun around this job: PMIx knows better.
Launch Reading::pmix() const {
  if (!has("PMIX_RANK") || !has("PMIX_NAMESPACE"))
    cannot_start(
        "RUEDA_BOOTSTRAP=pmix, but PMIX_RANK and PMIX_NAMESPACE are not set. Start the program by srun "
        "--mpi=pmix or Open MPI's mpirun, or choose another method.");
  Launch launch;
  launch.method = BootstrapMethod::pmix;
  launch.source = "PMIx";
  return launch;
}

Launch Reading::slurm() const {
  Launch launch = from(BootstrapMethod::slurm, kOfSlurm, "");
  launch.one_host = text("SLURM_STEP_NUM_NODES") == "1";
  launch.host = first_host_of(text("SLURM_STEP_NODELIST"));
  const std::string_view reserved = text("SLURM_STEP_RESV_PORTS");
  const std::optional<std::uint16_t> first =
      number_from<std::uint16_t>(reserved.substr(0, reserved.find_first_of("-,")));
  // Above the ports that systems give out by themselves.
  const auto job = number_from<std::uint32_t>(text("SLURM_JOB_ID")).value_or(0);
  const auto step = number_from<std::uint32_t>(text("SLURM_STEP_ID")).value_or(0);
  launch.port = first.value_or(static_cast<std::uint16_t>(61440 + (job * 31 + step) % 4096));
  if (launch.host.empty()) cannot_start("srun has left no SLURM_STEP_NODELIST. Set RUEDA_STORE=HOST:PORT.");
  return launch;
}

Launch Reading::store() const {
  const std::optional<HostAndPort> endpoint = host_and_port_from(config_.store);
  if (!endpoint) cannot_start(fmt::format("RUEDA_STORE='{}' is no HOST:PORT.", config_.store));
  Launch launch = from(BootstrapMethod::store, any_numbering("RUEDA_STORE"), "");
  launch.host = endpoint->host;
  launch.port = endpoint->port;
  launch.one_host = is_loopback(endpoint->host);
  return launch;
}

Launch Reading::file(std::string_view folder) const {
  Launch launch = from(BootstrapMethod::file, any_numbering("RUEDA_BOOTSTRAP=file"), "");
  launch.folder = folder;
  return launch;
}

}  // namespace

std::string_view to_string(BootstrapMethod method) {
  switch (method) {
    case BootstrapMethod::alone: return "alone";
    case BootstrapMethod::launcher: return "launcher";
    case BootstrapMethod::mpi: return "mpi";
    case BootstrapMethod::pmi: return "pmi";
    case BootstrapMethod::pmix: return "pmix";
    case BootstrapMethod::torchrun: return "torchrun";
    case BootstrapMethod::slurm: return "slurm";
    case BootstrapMethod::store: return "store";
    case BootstrapMethod::file: return "file";
    case BootstrapMethod::program: return "a store of the program's";
  }
  return "?";
}

Launch find_launch(const Config& config, const Environment& environment, bool mpi_has_begun) {
  const Reading reading(config, environment);
  const std::string_view asked = config.bootstrap;
  if (asked.starts_with(kFile)) return reading.file(asked.substr(kFile.size()));
  const bool by_ruedarun = reading.has("RUEDA_AGENT_LINE");
  if (asked == "launcher" || (asked == "auto" && by_ruedarun && !mpi_has_begun && !reading.wants_mpi()))
    return reading.launcher();
  if (asked == "store" || (asked == "auto" && !config.store.empty())) return reading.store();
  if (asked == "torchrun") return reading.torchrun();
  if (asked == "slurm") return reading.slurm();
  if (asked == "pmi") return reading.pmi();
  if (asked == "pmix") return reading.pmix();
  Launch launch;
  if (asked == "alone") return launch;
  const bool by_process_manager =
      reading.has("PMI_RANK") || reading.has("PMIX_RANK") || reading.has("OMPI_COMM_WORLD_RANK");
  if (asked == "mpi" || mpi_has_begun || by_process_manager) {
    launch.method = BootstrapMethod::mpi;
    return launch;
  }
  if (reading.started_by_torchrun()) return reading.torchrun();
  if (reading.started_by_srun()) return reading.slurm();
  if (reading.numbered_by_hand())
    cannot_start(
        "RUEDA_RANK and RUEDA_SIZE are set, but nothing says how the ranks find one another. Set "
        "RUEDA_STORE=HOST:PORT, or RUEDA_BOOTSTRAP=file:FOLDER, on every rank; for a process alone "
        "RUEDA_BOOTSTRAP=alone.");
  return launch;
}

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

std::string first_host_of(std::string_view list) {
  std::string host;
  for (std::size_t i = 0; i < list.size() && list[i] != ','; ++i) {
    if (list[i] != '[') {
      host += list[i];
      continue;
    }
    const std::size_t end = std::min(list.find(']', i), list.size());
    const std::string_view range = list.substr(i + 1, end - i - 1);
    host += range.substr(0, range.find_first_of("-,"));
    i = end;
  }
  return host;
}

std::optional<HostAndPort> host_and_port_from(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return std::nullopt;
  }
  const std::optional<std::uint16_t> port = number_from<std::uint16_t>(text.substr(colon + 1));
  if (host.empty() || !port || *port == 0) return std::nullopt;
  return HostAndPort{std::string(host), *port};
}

}  // namespace rueda
