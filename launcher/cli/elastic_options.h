// SPDX-License-Identifier: Apache-2.0
// The flags of elastic jobs.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace rueda {

struct LaunchOptions;

// The hosts or slots that are not used again after a failure.
enum class Blacklist {
  host,   // the whole host of a lost worker, as Horovod has it
  slot,   // the slot of a worker that died before it took part; the host, where its agent has gone
  never,  // nothing
};

// So long a slot or host is not used: twice as long after each further failure.
struct Cooldown {
  std::chrono::seconds least{};
  std::chrono::seconds most{};
};

// A job that goes on when it loses ranks, and takes others in.
struct ElasticOptions {
  int least = 0;                      // ranks; 0: the job is not elastic
  int most = 0;                       // 0: as many as it begins with
  int spares = 0;                     // processes that wait to take the place of a lost one; unless
                                      // they are given, there is one where a slot is left for it
  std::chrono::seconds timeout{600};  // how long there may be fewer than `least`
  std::optional<int> reset_limit;     // how often the ranks may change
  std::string discovery_script;       // prints the hosts; empty: -H and --hostfile name them
  std::chrono::seconds discovery_interval{1};
  int slots_per_host = 1;  // where the script tells none
  Blacklist blacklist = Blacklist::slot;
  std::optional<Cooldown> cooldown;  // none: for ever
  std::set<std::string_view> given;  // the flags of the user, but --min-np and the script
};

// The effect of each flag, by name.
using SetFlag = void (*)(LaunchOptions&, const std::string&);
const std::map<std::string_view, SetFlag>& elastic_flags();

// When all flags have been read. Throws UsageError where they do not fit together.
void settle_elastic(LaunchOptions& options);

}  // namespace rueda
