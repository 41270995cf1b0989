// SPDX-License-Identifier: Apache-2.0
// Hosts that a program of the user names again and again during an elastic job.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/cli/elastic_options.h"
#include "launcher/job/placement.h"
#include "launcher/system/descriptor.h"

namespace rueda {

// Lines of HOST or HOST:SLOTS, as Horovod has them. Of a host that comes twice the last line counts. Throws
// UsageError, which names the line.
std::vector<HostSlots> hosts_from_script(std::string_view text, int slots_per_host);

// Purpose: starts the program at its times, reads what it prints, and says which hosts there are. Blocks in
// nothing. Owned by the main thread of the supervisor.
class HostDiscovery {
 public:
  using Clock = std::chrono::steady_clock;

  // The program runs by `sh -c`, since Horovod takes a command with words, too.
  explicit HostDiscovery(const ElasticOptions& options);
  HostDiscovery(const HostDiscovery&) = delete;
  HostDiscovery& operator=(const HostDiscovery&) = delete;
  ~HostDiscovery();  // ends the program

  // The result of one run of the program: hosts, or the error.
  struct Answer {
    std::vector<HostSlots> hosts;
    std::string failure;
  };

  // Due at next_time(), and when descriptor() is readable. Starts the program, reads, or ends it where it
  // takes too long.
  void act(Clock::time_point now);
  Clock::time_point next_time() const;
  int descriptor() const { return output_.number(); }  // -1: the program does not run
  // Knows a child of ruedarun that has ended.
  bool note_end(pid_t process, int status);
  // Once for each run of the program.
  std::optional<Answer> take_answer();

 private:
  void start();
  void read();

  std::string command_;
  int slots_per_host_;
  Clock::duration interval_;
  Clock::time_point next_start_{};
  Clock::time_point give_up_at_{};
  pid_t process_ = 0;  // 0: it does not run
  Descriptor output_;
  std::string text_;
  std::optional<Answer> answer_;
};

// For the start of a job: waits until the hosts have so many slots, and tells the user why it waits. Nothing
// when a signal that ends jobs has come, which `signal` is then. Throws std::runtime_error where the first
// run of the program fails, or the time is over.
std::optional<std::vector<HostSlots>> wait_for_slots(HostDiscovery& discovery, int slots,
                                                     std::chrono::seconds longest, const Descriptor& signals,
                                                     int& signal);

}  // namespace rueda
