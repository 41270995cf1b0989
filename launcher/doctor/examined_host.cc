// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/examined_host.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "launcher/agent/agent_client.h"
#include "launcher/agent/agent_process.h"
#include "launcher/agent/supervisor_line.h"
#include "launcher/doctor/host_facts.h"
#include "launcher/doctor/link_test.h"
#include "launcher/doctor/network_facts.h"
#include "launcher/doctor/program_facts.h"
#include "launcher/system/descriptor.h"
#include "launcher/system/processes.h"

namespace rueda {
namespace {

constexpr std::size_t kMostDoubtful = 100;  // names; a message to ruedarun is short (agents::kMostAhead)
constexpr auto kLongestLookUp = std::chrono::seconds(5);
constexpr unsigned kLongestFacts = 100;  // seconds; ruedarun waits 90

// Purpose: answers ruedarun, message by message. Owned by the only thread of its process.
class Respondent {
 public:
  explicit Respondent(SecureChannel channel) : line_(std::move(channel)) {}

  void run();

 private:
  void greet();
  void obey(const agents::Message& message);
  agents::HostFacts facts(const agents::Examine& examine);
  static std::string enter(const agents::Examine& examine);

  SupervisorLine line_;
  std::optional<LinkTest> links_;
  bool greeted_ = false;
  bool over_ = false;
};

void Respondent::greet() {
  if (greeted_ || line_.state() != SecureChannel::State::open) return;
  greeted_ = true;
  line_.tell(agents::Ready{host_name(), ::getpid()});
}

void Respondent::run() {
  greet();  // from another host it is open already
  while (!over_ && line_.state() != SecureChannel::State::closed) {
    const short out = line_.wants_to_write() ? POLLOUT : 0;
    std::vector<pollfd> waits{{line_.descriptor(), static_cast<short>(POLLIN | out), 0}};
    if (links_) links_->add_to(waits);
    ::poll(waits.data(), waits.size(), links_ ? links_->timeout() : -1);
    const std::vector<agents::Message> messages = line_.hear();
    greet();
    for (const agents::Message& message : messages) obey(message);
    if (links_) links_->serve();
  }
}

void Respondent::obey(const agents::Message& message) {
  if (const auto* ask = std::get_if<agents::AskTime>(&message)) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    line_.tell(agents::TellTime{ask->round, std::chrono::nanoseconds(now).count()});
  } else if (const auto* examine = std::get_if<agents::Examine>(&message)) {
    line_.tell(facts(*examine));
  } else if (const auto* peers = std::get_if<agents::ReachHosts>(&message)) {
    if (links_) line_.tell(links_->reach(*peers));
  } else if (const auto* wanted = std::get_if<agents::MeasureLink>(&message)) {
    if (links_) line_.tell(links_->measure(*wanted));
  } else if (std::holds_alternative<agents::JobOver>(message)) {
    over_ = true;
  }
}

// The job's environment and folder. Returns the problem of the folder.
std::string Respondent::enter(const agents::Examine& examine) {
  ::clearenv();
  for (const std::string& entry : examine.environment)
    if (const std::size_t end = entry.find('='); end != std::string::npos && end > 0)
      ::setenv(entry.substr(0, end).c_str(), entry.substr(end + 1).c_str(), 1);
  return ::chdir(examine.folder.c_str()) == 0 ? "" : std::strerror(errno);
}

// As a rank of the job would find this host. A part that fails leaves the others.
agents::HostFacts Respondent::facts(const agents::Examine& examine) {
  agents::HostFacts found;
  const auto look = [&](std::string_view part, const auto& look_at_it) {
    try {
      look_at_it();
    } catch (const std::exception& error) {
      found.problems.push_back(fmt::format("{}: {}", part, error.what()));
    }
  };
  ::alarm(kLongestFacts);  // a file system that hangs lets nothing else end this process
  look("limits", [&] { found.processes = process_facts(); });
  look("memory", [&] { found.memory = memory_facts(); });
  look("cores", [&] { found.cores = core_facts(); });
  look("network", [&] {
    allow_many_descriptors();
    found.network.cards = cards_here(examine.cards);
    found.network.absent_cards = absent_cards(examine.cards);
    found.network.infiniband = infiniband_devices();
    links_.emplace(examine.host, examine.key);
    links_->listen(found.network.cards);
  });
  const std::string folder_problem = enter(examine);
  look("software", [&] { found.software = software_facts(examine.program, line_.descriptor()); });
  found.software.folder_problem = folder_problem;
  look("names", [&] {
    const FoundNames names = look_up(examine.hosts, kLongestLookUp);
    found.network.names = doubtful(names.names, kMostDoubtful);
    found.network.names_left = names.left;
  });
  ::alarm(0);
  agents::shorten(found, agents::kMostAhead / 2);
  return found;
}

}  // namespace

// The line tells when ruedarun ends, and then a program may have to be ended here first. A look-up that still
// runs is left, so this process ends without further steps.
void answer_doctor(SecureChannel channel) {
  ::prctl(PR_SET_PDEATHSIG, 0);
  Respondent(std::move(channel)).run();
  ::_exit(0);
}

ExaminedChild fork_examined_host(int host, const AuthenticationKey& key, const SignalState& inherited) {
  std::array<int, 2> ends{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw std::system_error(errno, std::generic_category(), "cannot make a pair of sockets");
  Descriptor ours(ends[0]), theirs(ends[1]);
  const pid_t process = ::fork();
  if (process < 0) throw std::system_error(errno, std::generic_category(), "cannot fork");
  if (process > 0) return {process, std::move(ours)};
  constexpr int kKept = STDERR_FILENO + 1;
  if (theirs.number() != kKept) ::dup3(theirs.number(), kKept, O_CLOEXEC);
  ::close_range(kKept + 1, ~0U, 0);
  set_signal_state(inherited);
  try {
    const std::string words = to_text(AgentIntroduction{host, ""});
    answer_doctor(SecureChannel::connect(Descriptor(kKept), key, std::as_bytes(std::span(words)),
                                         agents::kLongestMessage));
  } catch (const std::exception& error) {
    fmt::print(stderr, "ruedarun: {}\n", error.what());
  }
  ::_exit(1);
}

int run_examined_host(const std::vector<std::string>& words) {
  const AgentCall call = read_call(words);
  std::optional<SecureChannel> channel;
  if (call.invitation) channel = connect_to_supervisor(*call.invitation, call.introduction);
  if (!channel) return say_unreachable(call);
  answer_doctor(std::move(*channel));
}

}  // namespace rueda
