// SPDX-License-Identifier: Apache-2.0
// The command line of ruedarun.
#pragma once

#include <chrono>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "launcher/cli/elastic_options.h"
#include "launcher/cli/usage_error.h"
#include "launcher/protocol/agent_message.h"

namespace rueda {

// Hosts that ruedarun makes for the job on this machine, with a card on each rail.
struct VirtualHosts {
  int count = 0;     // 0: none
  int rails = 0;     // 0: not given
  std::string rate;  // of each card, in each direction: 200mbit; "max": no limit; empty: not given
};

// Purpose: the wishes of the user. A plain value.
struct LaunchOptions {
  enum class Action {
    launch,
    help,
    version,
    print_config,
    check_build,
    merge_timeline,
    doctor,
    status,
    report,
    stacks,
    dump
  };
  enum class Launcher { own, hydra };
  enum class Label { none, rank, host };
  enum class Terminal { automatic, always, never };

  // The live page of the job.
  struct Page {
    bool is_wanted = true;
    bool is_given = false;  // by --page: then it has to be there
    std::string host = "127.0.0.1";
    int port = 0;  // 0: a free one
  };

  // The page as a file.
  struct Report {
    std::string file;                 // empty: none
    std::vector<std::string> labels;  // of the summaries, in their order; empty: none given
  };

  // A setting given by a flag: its text, and the flag.
  struct Given {
    std::string text;
    std::string flag;
    bool operator==(const Given&) const = default;
  };

  Action action = Action::launch;
  int ranks = 0;
  ElasticOptions elastic;
  std::string hosts;  // "a:2,b"; empty: not given
  Launcher launcher = Launcher::own;
  std::vector<std::string> remote_shell;  // starts agents on other hosts; empty: ssh
  agents::Binding binding = agents::Binding::core;
  VirtualHosts virtual_hosts;
  Page page;
  Report report;
  bool json = false;                        // of what an action prints
  std::string output_folder;                // empty: no files
  std::string dump_folder;                  // the same, of the operations of ranks that are lost or wait
  Label label = Label::rank;                // before each line
  Terminal terminal = Terminal::automatic;  // of rank 0
  bool prefix_time = false;
  std::set<int> shown;  // the ranks whose output is shown; empty: all
  bool verbose = false;
  bool tcp = false;
  std::chrono::seconds stop_after{0};      // 0: never
  std::chrono::seconds grace{30};          // from SIGTERM to SIGKILL
  bool grace_given = false;                // then it also counts from Ctrl-C on
  std::string network_interface;           // empty: whichever
  std::string ssh_words;                   // for ssh, as on a command line
  std::vector<std::string> mpiexec_words;  // as the user gave them
  std::map<std::string, Given> settings;   // by name, without RUEDA_
  std::vector<std::string> notes;          // for the user: what is ignored, and why
  std::string merged_timeline;             // the file to make
  // PROGRAM ARGS..., the timelines to merge, a process of --status, --stacks or --dump, or the summaries of
  // --report.
  std::vector<std::string> command;
};

inline constexpr int kMostRanks = 4096;

// `arguments` without the program's own name. Everything from the first word that is no option on is the
// command.
LaunchOptions parse_launch_options(std::span<const std::string> arguments);

// The choices of the command line, as variables of this process: before it reads the settings.
void export_choices(const LaunchOptions& options);

// The words of a command line, as a shell would split it. Throws UsageError where a quotation mark is not
// closed.
std::vector<std::string> words_of(const std::string& text);

std::string help_text();

// Throws UsageError unless `program` can be started: a path, or a name that PATH finds.
void check_program(const std::string& program);

}  // namespace rueda
