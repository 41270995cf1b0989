// SPDX-License-Identifier: Apache-2.0
// ruedarun on other hosts, and the way out when it does not start there.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <list>
#include <string>
#include <vector>

#include "launcher/start/agent_starter.h"

namespace rueda {

// Purpose: how the program that should start ruedarun on a host has ended. A plain value.
struct FailedStart {
  std::string host;
  std::string method;   // "ssh -x"
  std::string program;  // the path of ruedarun
  int status = 0;       // as a shell shows it
  std::string said;     // its last line
};
std::string remedy_of(const FailedStart& start);

// "See that": of a sentence.
std::string capitalized(std::string text);

// Purpose: starts ruedarun on other hosts. Where the method has a program for each host, each has its own
// starter, so that the last line of each is known. Owned by the main thread.
class HostStarter {
 public:
  struct Lost {
    int host = 0;
    std::string why;
    std::string remedy;
  };

  HostStarter(const LaunchOptions& options, const LaunchMethod& method, std::vector<std::string> hosts);

  bool is_here(int host) const { return chooser_.is_here(host); }
  // Returns those that cannot be started.
  std::vector<Lost> start(const Invitation& invitation, const std::vector<int>& hosts);

  void add_to(std::vector<pollfd>& waits) const;
  // Prints lines of starters on stderr.
  void pass_lines_on();
  // Of a child of ruedarun that has ended: its hosts.
  std::vector<Lost> note_end(pid_t process, int status);
  bool none_runs() const;

 private:
  struct Starter {
    AgentStarter agents;
    std::string last_line{};
  };

  void start_some(const Invitation& invitation, const std::vector<int>& hosts, std::vector<Lost>& lost);
  static void pass_lines_on(Starter& starter);
  std::vector<Lost> lost_by(Starter& starter, const AgentStarter::EndedStarter& ended) const;

  const LaunchOptions& options_;
  const LaunchMethod& method_;
  const std::vector<std::string> hosts_;
  const AgentStarter chooser_;  // tells which hosts are here
  std::list<Starter> starters_;
};

}  // namespace rueda
