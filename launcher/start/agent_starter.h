// SPDX-License-Identifier: Apache-2.0
// Starts the agents of a job, each on its host.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/cli/options.h"
#include "launcher/protocol/invitation.h"
#include "launcher/start/launch_method.h"
#include "launcher/system/descriptor.h"

namespace rueda {

// Purpose: the processes that start agents: a janitor on this machine, a remote shell for each other host, or
// one srun or mpiexec for all. Owned by the main thread of the supervisor.
class AgentStarter {
 public:
  // A starter that has ended.
  struct EndedStarter {
    std::string command;  // "ssh node3"
    int status = 0;       // of wait()
    std::vector<int> hosts;
    bool on_this_machine = false;
  };

  // `role`: the first word of ruedarun on other hosts.
  AgentStarter(const LaunchOptions& options, LaunchMethod method, std::vector<std::string> hosts,
               std::string role = "--agent");

  // A host more. Its number is the next one.
  void add_host(const std::string& host) { hosts_.push_back(host); }

  bool is_here(int host) const;  // its agent is a child of this process
  // The agent of a host that is here: the socket to it.
  Descriptor start_here(const AuthenticationKey& key, int host);
  // Those of other hosts. Throws std::system_error.
  void start_elsewhere(const Invitation& invitation, const std::vector<int>& hosts);

  const std::string& remedy() const { return method_.remedy; }
  std::vector<std::string> commands() const;  // of starters, for --verbose

  // Lines that starters have printed; readable as descriptor().
  int descriptor() const { return said_.number(); }
  std::vector<std::string> lines();

  // Knows a child of ruedarun that has ended.
  std::optional<EndedStarter> note_end(pid_t process, int status);
  bool none_runs() const { return starters_.empty(); }
  // Ends starters on behalf of hosts that are not wanted any more.
  void end_those(const std::function<bool(int host)>& unwanted);

 private:
  struct Starter {
    pid_t process = 0;
    std::vector<std::string> command;
    std::vector<int> hosts;
    Descriptor input;  // open as long as the agent may live
  };

  std::vector<std::string> agent_command(std::vector<std::string> words) const;
  const std::string& name_of(int host) const { return hosts_[static_cast<std::size_t>(host)]; }
  void spawn(std::vector<std::string> command, std::vector<int> hosts, const std::string& line);

  const LaunchOptions& options_;
  const LaunchMethod method_;
  std::vector<std::string> hosts_;
  const std::string role_;
  const Surroundings around_;
  std::vector<Starter> starters_;
  Descriptor said_, says_;  // a pipe: starters print into it
  std::string begun_;       // a line without its end
};

}  // namespace rueda
