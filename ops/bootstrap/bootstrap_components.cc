// SPDX-License-Identifier: Apache-2.0
#include "ops/bootstrap/bootstrap_components.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <system_error>
#include <utility>

#include "core/base/log.h"
#include "core/base/system/hex.h"
#include "core/control/bootstrap/ranks_of_job.h"
#include "core/observe/rank_file.h"
#include "ops/bootstrap/address/agent_line.h"
#include "ops/bootstrap/address/file_store.h"
#include "ops/bootstrap/address/munge_address.h"
#include "ops/bootstrap/address/pmi_connection.h"
#include "ops/bootstrap/address/start_error.h"
#include "ops/bootstrap/address/torch_store.h"
#include "ops/bootstrap/elastic_worker.h"
#include "ops/bootstrap/ranks_of_launcher.h"
#include "ops/bootstrap/star/star_transport.h"
#include "ops/munge/munge.h"
#include "ops/sockets/tcp_socket.h"

namespace rueda {
namespace {

// A key from text that all ranks have; the text may be of any length.
AuthenticationKey key_from(std::string_view text) {
  const Proof hash = prove({}, {std::as_bytes(std::span(text))});
  AuthenticationKey key;
  std::copy_n(hash.begin(), key.size(), key.begin());
  return key;
}

// Tells jobs of different processes apart, alike on each rank of a job, with few letters.
std::string name_of_job(const std::vector<Rank>& ranks) {
  const AuthenticationKey hash = key_from(fmt::format("{}", fmt::join(ranks, ",")));
  constexpr std::size_t kBytes = 4;
  return to_hex(std::span(hash).first(kBytes));
}

// A host and a port are known beforehand: those of rank 0, or of its credential.
bool has_endpoint(const Launch& launch) {
  return launch.method == BootstrapMethod::store || launch.method == BootstrapMethod::slurm;
}
// They are those of rank 0, which publishes nothing, and draws no secret.
bool is_known(const Launch& launch) { return has_endpoint(launch) && !launch.by_munge; }

// Keys have one value, so ranks count their jobs, and must count alike.
bool needs_all_ranks(const Launch& launch) {
  return launch.method == BootstrapMethod::pmi || launch.method == BootstrapMethod::pmix;
}

const char* text_of_secret() { return std::getenv("RUEDA_SECRET"); }

TcpSecret secret_of_user() { return key_from(text_of_secret() == nullptr ? "" : text_of_secret()); }

void warn_without_secret(const Launch& launch) {
  if (text_of_secret() != nullptr) return;
  log(LogLevel::warning,
      "every process that reaches {}:{} can join this job. Set RUEDA_SECRET to the same random text on every "
      "rank, or start the job by ruedarun.",
      launch.one_host ? "127.0.0.1" : launch.host, launch.port);
}

// The socket of munge's daemon. Empty: libmunge chooses.
std::string munge_socket() {
  const char* path = std::getenv("RUEDA_MUNGE_SOCKET");
  return path == nullptr ? "" : path;
}

std::string name_of_host() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return host.data();
}

// One rank of each host warns.
void warn_without_munge(const Launch& launch, const std::string& why) {
  const char* local_rank = std::getenv("SLURM_LOCALID");
  const bool first = local_rank == nullptr || std::string_view(local_rank) == "0";
  log(first ? LogLevel::warning : LogLevel::info,
      "rank {} on {} starts without munge: {}. If it works on other hosts, the ranks do not find one "
      "another. "
      "Start munged on each host, or set RUEDA_SECRET to the same random text on every rank.",
      launch.rank, name_of_host(), why);
}

// A user who names munge's daemon wants munge: without it the job would start in the open.
bool can_use_munge(const Launch& launch) {
  if (launch.method != BootstrapMethod::slurm || text_of_secret() != nullptr) return false;
  const MungeText tried = seal_by_munge("?", munge_socket());
  if (tried.outcome == MungeText::Outcome::good) return true;
  if (!munge_socket().empty())
    cannot_start(
        fmt::format("rank {} on {} has no munge at RUEDA_MUNGE_SOCKET={}: {}. Start munged there, unset the "
                    "variable, or set "
                    "RUEDA_SECRET to the same random text on every rank.",
                    launch.rank, name_of_host(), munge_socket(), tried.why));
  warn_without_munge(launch, tried.why);
  return false;
}

// One for the process: the process manager must not lose it before the process ends.
std::shared_ptr<PmiConnection> pmi_connection() {
  static std::shared_ptr<PmiConnection> connection;
  if (!connection) {
    const std::optional<PmiProcess> process = pmi_process();
    if (!process)
      cannot_start(
          "RUEDA_BOOTSTRAP=pmi, but PMI_FD, PMI_RANK and PMI_SIZE are not those of a process manager. Start "
          "the "
          "program by mpiexec, or choose another method.");
    connection = std::make_shared<PmiConnection>(*process);
  }
  return connection;
}

// Ranks of one host meet at its loopback, whatever the name of the host stands for.
std::string known_host(const Launch& launch) {
  return launch.one_host && !is_loopback(launch.host) ? "127.0.0.1" : launch.host;
}

// The addresses at which rank 0 listens if nobody knows them beforehand.
std::vector<TcpAddress> addresses_to_listen_at(const Launch& launch, const Config& config) {
  constexpr std::size_t kMost = 8;  // a line of PMI holds so many
  std::vector<TcpAddress> all;
  if (!launch.one_host) all = own_addresses(cards_in(config.rails)).addresses;
  if (all.size() > kMost) all.resize(kMost);
  if (all.empty()) all = {{"127.0.0.1", 0}};
  return all;
}

// Rank 0's sockets, or the reason why there is none.
struct Listening {
  StarListener listener;
  std::string why;
  std::string_view remedy;  // for that reason; empty: there is none but a better address
  bool in_use = false;      // an address is this host's, and another process has its port
};

// Listens at each address that this host has.
Listening listen_at_each(const std::vector<TcpAddress>& addresses) {
  Listening listening;
  for (const TcpAddress& address : addresses) {
    OpenedSocket opened = listen_at(address);
    if (!opened.socket) {
      listening.why =
          fmt::format("{}: {}", to_string(address), std::generic_category().message(opened.error));
      listening.remedy = remedy_for_open_files(opened.error);
      listening.in_use |= opened.error == EADDRINUSE;
      continue;
    }
    listening.listener.endpoint.addresses.push_back(address_of(opened.socket, address));
    listening.listener.sockets.push_back(std::move(opened.socket));
  }
  return listening;
}

[[noreturn]] void cannot_listen(const Listening& tried, std::string_view remedy) {
  if (!tried.remedy.empty()) remedy = tried.remedy;
  cannot_start(fmt::format("rank 0 cannot listen: {}. {}", tried.why, remedy));
}

// A name such as that of a service of Kubernetes stands for no address of this host: rank 0 listens at all of
// its own then.
StarListener listen_at_endpoint(const Launch& launch) {
  Listening listening = listen_at_each(addresses_of(known_host(launch), launch.port));
  if (listening.why.empty()) listening.why = known_host(launch) + " has no address";
  const auto none = [&] { return listening.listener.sockets.empty(); };
  if (none() && !is_loopback(known_host(launch)) && !listening.in_use) {
    log(LogLevel::warning, "rank 0 listens at every address of this host, since {} is none of them ({})",
        launch.host, listening.why);
    listening = listen_at_each({{"0.0.0.0", launch.port}});
    if (none()) listening = listen_at_each({{"::", launch.port}});
  }
  if (none()) cannot_listen(listening, "Name a host and a free port of rank 0 by RUEDA_STORE=HOST:PORT.");
  return std::move(listening.listener);
}

StarListener listen(const Launch& launch, const Config& config) {
  if (is_known(launch)) {
    StarListener listener = listen_at_endpoint(launch);
    listener.endpoint.secret = secret_of_user();
    warn_without_secret(launch);
    return listener;
  }
  Listening listening = listen_at_each(addresses_to_listen_at(launch, config));
  if (listening.listener.sockets.empty()) listening = listen_at_each({{"::1", 0}});  // there is no IPv4
  if (listening.listener.sockets.empty()) cannot_listen(listening, "Bring a network card up.");
  listening.listener.endpoint.secret = random_key();
  return std::move(listening.listener);
}

// The sockets of a rank other than rank 0. On one host it has none: rank 0 reaches all by itself.
StarListener listen_for_welcome(const Launch& launch, const Config& config) {
  if (launch.one_host) return {};
  StarListener listener = listen_at_each(addresses_to_listen_at(launch, config)).listener;
  listener.endpoint.secret = random_key();
  return listener;
}

std::unique_ptr<RootAddress> address_behind_munge(const Launch& launch, bool root) {
  std::vector<Descriptor> listeners;
  if (root) listeners = listen_at_endpoint(launch).sockets;
  return address_by_munge({known_host(launch), launch.port, munge_socket()}, std::move(listeners));
}

std::unique_ptr<RootAddress> root_address(const Launch& launch, const StarMember& self) {
  const std::string key = "rueda-root-" + self.job;
  switch (launch.method) {
    case BootstrapMethod::launcher: return address_in_store(std::make_shared<AgentStore>(), key);
    case BootstrapMethod::pmi: return address_by_pmi(pmi_connection());
    case BootstrapMethod::torchrun:
      return address_in_store(std::make_shared<TorchStore>(launch.host, launch.port), key);
    case BootstrapMethod::file: return address_in_store(std::make_shared<FileStore>(launch.folder), key);
    case BootstrapMethod::pmix:
    case BootstrapMethod::program: return address_in_store(launch.given_store, key);
    case BootstrapMethod::slurm:
      if (launch.by_munge) return address_behind_munge(launch, self.rank == 0);
      [[fallthrough]];
    case BootstrapMethod::store: return known_address(known_host(launch), launch.port, secret_of_user());
    case BootstrapMethod::alone:
    case BootstrapMethod::mpi: break;
  }
  return nullptr;
}

std::unique_ptr<Transport> star(const Launch& launch, const Config& config, StarMember self) {
  std::unique_ptr<RootAddress> address = root_address(launch, self);
  const Duration deadline = from_seconds(config.network_deadline);
  if (self.rank != 0)
    return std::make_unique<StarLeaf>(std::move(self), std::move(address), deadline,
                                      listen_for_welcome(launch, config));
  return std::make_unique<StarRoot>(std::move(self), listen(launch, config), std::move(address), deadline);
}

void check(const Launch& launch, const std::vector<Rank>& ranks) {
  if (ranks.empty()) return;
  check_ranks_of_job(ranks, launch.size, launch.rank);
  if (needs_all_ranks(launch) && ranks.size() != static_cast<std::size_t>(launch.size))
    cannot_start(fmt::format(
        "a job of some of the ranks cannot be started by RUEDA_BOOTSTRAP={}. Use ruedarun, or mpi.",
        to_string(launch.method)));
  if (has_endpoint(launch) && ranks.front() != 0)
    cannot_start(fmt::format(
        "a job of the ranks [{}] has no rank 0 to listen at {}:{}. Use RUEDA_BOOTSTRAP=file:FOLDER.",
        fmt::join(ranks, ", "), launch.host, launch.port));
}

// A program that a rank has started has the variables of the rank, but not its line.
AgentLine& agent_line() {
  AgentLine& line = AgentLine::of_this_process();
  if (line) return line;
  const char* rank = std::getenv("RUEDA_RANK");
  cannot_start(fmt::format(
      "this process was started by rank {}, and is no rank itself: only ruedarun starts those. For "
      "a job of its own start it without the variables PMI_RANK and PMI_SIZE.",
      rank == nullptr ? "?" : rank));
}

// Each generation has ranks of its own, and files.
void use_files_of_generation(Config& config, std::uint64_t generation) {
  for (std::string* path : {&config.timeline, &config.autotune_log})
    if (!path->empty() && *path != "DYNAMIC") *path = path_of_generation(*path, generation);
}

// The generation is part of the name under which rank 0 is found.
void join_generation(RuntimeComponents& components, ElasticWorker& worker, const Generation& generation) {
  components.elastic = true;
  components.generation = generation.number;
  use_files_of_generation(components.config, generation.number);
  components.rank = worker.rank_in(generation);
  components.size = generation.workers.count();
  components.started_as = generation.by_rank();
  components.has_news = [&worker, seen = std::uint64_t{0}]() mutable {
    return std::exchange(seen, worker.news()) != seen;
  };
  components.superseded = [&worker, number = generation.number] { return worker.is_superseded(number); };
}

// Ranks have numbers of the whole job in ruedarun, and perhaps others in this one.
void listen_to_agent(RuntimeComponents& components) {
  AgentLine& line = agent_line();
  line.tell_joined();
  const std::vector<Rank> ranks = components.started_as;
  components.how_it_ended = [&line, ranks](Rank rank) {
    return line.how_it_ended(ranks.empty() ? rank : ranks[static_cast<std::size_t>(rank)]);
  };
  components.newly_failed = [&line, ranks, own = components.rank, seen = std::size_t{0}]() mutable {
    std::vector<Rank> failed;
    for (const LostPeer& peer : line.lost(seen)) {
      const auto found = std::ranges::find(ranks, peer.rank);
      const Rank rank = ranks.empty() ? peer.rank : static_cast<Rank>(found - ranks.begin());
      if ((ranks.empty() || found != ranks.end()) && rank != own) failed.push_back(rank);
    }
    return failed;
  };
}

std::string found_by(const Launch& launch) {
  std::string details;
  if (!launch.host.empty()) details = fmt::format(", {}:{}", launch.host, launch.port);
  if (launch.by_munge) details += ", with munge";
  const std::optional<PmiProcess> process = pmi_process();
  if (launch.method == BootstrapMethod::pmi && process)
    details = fmt::format(", {}", dialect_of(*process)->name());
  return fmt::format("rank {} of {} by {}: the others are found by {}{}", launch.rank, launch.size,
                     launch.source, to_string(launch.method), details);
}

}  // namespace

RuntimeComponents bootstrap_components(const Config& config, Launch launch, std::vector<Rank> ranks) {
  ElasticWorker* const worker =
      launch.method == BootstrapMethod::launcher ? ElasticWorker::of_this_process() : nullptr;
  if (worker != nullptr && !ranks.empty())
    cannot_start(
        "an elastic job (ruedarun --min-np) cannot be one of some of the ranks. Leave the list of ranks "
        "out.");
  check(launch, ranks);
  launch.by_munge = can_use_munge(launch);
  if (are_all_ranks(ranks, launch.size)) ranks.clear();
  RuntimeComponents components;
  components.config = config;
  components.host = name_of_host();
  components.rank = launch.rank;
  components.size = launch.size;
  std::string name = name_of_job(ranks);
  if (worker != nullptr) {
    const Generation generation = worker->next_generation();
    join_generation(components, *worker, generation);
    name = fmt::format("generation-{}", generation.number);
  } else if (!ranks.empty()) {
    components.rank = static_cast<Rank>(std::ranges::find(ranks, launch.rank) - ranks.begin());
    components.size = static_cast<Rank>(ranks.size());
    components.started_as = ranks;
  }
  components.found_by = found_by(launch);
  components.start_may_be_repeated = !needs_all_ranks(launch);
  if (launch.method == BootstrapMethod::launcher) listen_to_agent(components);
  if (launch.method == BootstrapMethod::program) {
    AgentLine::of_this_process().tell_joined();
    ask_agent_of_members(components, AgentLine::of_this_process());
  }
  if (components.size > 1)
    components.transport = star(launch, config, StarMember{components.rank, components.size, name});
  return components;
}

}  // namespace rueda
