// SPDX-License-Identifier: Apache-2.0
// The hosts of an elastic job, and the slots for workers there.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/time.h"
#include "core/control/membership/generation.h"
#include "launcher/cli/elastic_options.h"
#include "launcher/job/placement.h"

namespace rueda {

// Purpose: which worker is in which slot, which host has an agent, and where the next worker may start.
// After failures a slot or a host is not used for some time, or never again (Blacklist). A host has a number
// from the start of its agent on; one that comes back gets a new number with its new agent. Pure: events and
// time in, slots out. Owned by the main thread of the supervisor.
class HostPool {
 public:
  HostPool(Blacklist blacklist, std::optional<Cooldown> cooldown, std::uint32_t seed);

  // A host of the start, with its workers. Its agent is on its way.
  void begin(int number, const HostRanks& host);
  struct Change {
    std::vector<std::string> fresh;  // hosts
    std::vector<std::string> left;   // hosts
    std::vector<Worker> leaving;     // workers whose slots are closed
  };
  // From now on these hosts may be used, with so many slots. Those of a host that is left out, or has fewer
  // slots now, are closed.
  Change use(const std::vector<HostSlots>& hosts);
  // The same for all slots of one host, which is to go. It is used again when the user has left it out first.
  std::vector<Worker> close(int number);

  // A slot, or a whole host, that is not used for some time, or never again.
  struct Banned {
    std::string host;
    std::optional<int> local_rank{};  // of the slot
    std::optional<Duration> time{};
  };
  // A host without an agent whose slots are wanted, so that there are `workers` in all.
  std::optional<std::string> host_to_start(int workers, Time now) const;
  void starts(const std::string& host, int number, Time now);  // its agent is on its way
  void open(int number);                                       // its agent is there
  std::optional<Banned> lose(int number, Time now);            // its agent has gone, or does not come
  Banned put_off(const std::string& host, Time now);           // no agent can be started there
  // Hosts whose agent is on its way for longer.
  std::vector<int> overdue(Time now, Duration longest) const;
  std::optional<Time> starting_since() const;  // the first of those on their way
  // Hosts that are closed and have no worker any more, each once: their agents have nothing to do.
  std::vector<int> take_released();

  // A free slot on a host with an agent.
  struct Opening {
    int number = 0;  // of the host
    std::string host;
    int local_rank = 0;
    int slots = 0;  // of the host
  };
  std::optional<Opening> opening(Time now) const;
  void fill(const Opening& opening, Worker worker);

  // The worker has ended. `took_part`: it has been in a generation that formed.
  void ended_well(Worker worker);
  std::optional<Banned> failed(Worker worker, bool took_part, Time now);
  // Workers of hosts that are on the blacklist: they have to end.
  std::vector<Worker> take_blacklisted();

  bool has_one_host() const;  // for all that is known
  int taken() const;          // slots that have workers
  int staying() const;        // those of them that are not closed
  // Whether a worker may start now or later, if nothing else changes.
  bool may_get_more() const;
  std::optional<Time> next_time(Time now) const;  // a slot may be used again then
  std::string name_of(int number) const;
  int slots_of(int number) const;
  bool is_closed(int number) const;  // or its agent has gone

 private:
  // Why a slot or host is not used.
  struct Ban {
    Time until{};
    int failures = 0;
  };
  struct Slot {
    std::optional<Worker> worker;
    bool closed = false;
    Ban ban{};
  };
  struct Host {
    enum class State {
      listed,    // it has no agent
      starting,  // its agent is on its way
      open,      // its agent is there
      closed,    // no worker starts there any more
      gone,      // so is its agent
    };
    std::string name;
    State state = State::listed;
    int number = -1;
    std::vector<Slot> slots{};
    Time since{};  // its agent is on its way

    bool has_workers() const;
    bool is_in_use() const { return state != State::closed && state != State::gone; }
  };

  Host* live_host(const std::string& name);
  Host* with_number(int number);
  const Host* with_number(int number) const;
  std::pair<Host*, Slot*> find_slot(Worker worker);
  void close(Host& host, std::vector<Worker>& leaving);
  void list(const std::string& name, int slots);
  void list_again(const Host& host);  // without an agent
  void resize(Host& host, int slots, std::vector<Worker>& leaving);
  std::optional<Duration> put_off(Ban& ban, Time now);  // for how long; nothing: for ever
  Time usable_from(const Host& host, const Slot& slot) const;
  int free_slots(const Host& host, Time now) const;

  const Blacklist blacklist_;
  const std::optional<Cooldown> cooldown_;
  std::minstd_rand random_;
  std::vector<Host> hosts_;          // in the order of their coming
  std::map<std::string, Ban> bans_;  // of whole hosts
  std::vector<Worker> blacklisted_;
  std::set<std::string> asked_to_go_;  // hosts
};

}  // namespace rueda
