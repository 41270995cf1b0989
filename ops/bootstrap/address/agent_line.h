// SPDX-License-Identifier: Apache-2.0
// The rank's side of its line to the agent of ruedarun on this host (the agent's:
// launcher/agent/rank_channel).
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/system/descriptor.h"
#include "core/control/membership/generation.h"
#include "ops/bootstrap/address/key_value_store.h"
#include "rueda/types.h"

namespace rueda {

// A rank that has failed, as the agent tells of it.
struct LostPeer {
  Rank rank = 0;
  std::string words;  // "rank 2 (process 17 on node3) was killed by signal 9 (Killed)"
};

// Purpose: a socket that this process has inherited; RUEDA_AGENT_LINE in the environment says which. Without
// an agent it does nothing. Any thread may call it; no call waits but get().
class AgentLine {
 public:
  static AgentLine& of_this_process();

  AgentLine();  // children of this process do not get the line
  AgentLine(const AgentLine&) = delete;
  AgentLine& operator=(const AgentLine&) = delete;

  explicit operator bool() const { return static_cast<bool>(socket_); }

  // This process calls init(): signals for the rank are for it. The agent gets the page of its training.
  void tell_joined();
  // The agent may read the RecorderPage at `offset` of that file. `identity`: the page's, in words.
  void show_recorder(int descriptor, std::size_t offset, const std::string& identity);
  // This process has found that ranks wait for others in vain.
  void tell_stall() { tell("stalled"); }
  // It has begun MPI, which hears of failed ranks by SIGUSR1.
  void tell_mpi() { tell("mpi"); }

  // Shows a value to all ranks; an empty one takes the key away.
  void put(const std::string& key, const std::string& value);
  // The value of a key that any rank has put; nothing when none comes within that time.
  std::optional<std::string> get(const std::string& key, int milliseconds);

  // In an elastic job: what this process says of itself (agents::WorkerState), and what it has heard.
  struct Membership {
    std::optional<Generation> newest;
    bool joiners_wait = false;  // to be in the next one
    bool leavers_wait = false;  // not to be in it
    bool retires = false;       // this process is one of these
    double since = 0;           // seconds of the wall clock: when the last change of these was heard
  };
  void tell_state(const std::string& words) { tell(words); }
  Membership membership();
  // How many packets have been heard.
  std::uint64_t packets();
  // Until more than `packets` may have come, for that time at most.
  void wait(std::uint64_t packets, int milliseconds);
  // From now on a thread calls wait_for_packet() again and again: others rely on it.
  void begin_to_listen();
  // Waits for the next packet, and hears it. False: the agent has gone.
  bool wait_for_packet();

  // Ranks that the agent has named; `seen`: how many of them the caller knows, which is counted up.
  std::vector<LostPeer> lost(std::size_t& seen);
  // The end of a rank in words, "was killed by signal 9 (Killed)"; empty when the agent has not told it yet.
  std::string how_it_ended(Rank rank);

 private:
  void tell(std::string_view packet);
  void hand_over(std::string_view packet, int descriptor);
  void catch_up();  // with the lock
  bool hear();      // with the lock. False: the agent has gone
  void hear(std::string_view packet);

  std::mutex mutex_;
  std::condition_variable heard_;
  Descriptor socket_;
  std::atomic<bool> has_page_ = false;  // the agent, of this process's training
  std::uint64_t packets_ = 0;
  bool has_listener_ = false;
  std::vector<LostPeer> lost_;
  Membership membership_;
  std::map<std::string, std::string> values_;  // those that were asked for
};

// The values of all ranks of a job that ruedarun has started.
class AgentStore final : public KeyValueStore {
 public:
  void set(const std::string& key, const std::string& value) override;
  std::optional<std::string> get(const std::string& key) override;
  void remove(const std::string& key) override;
  std::string in_words() const override { return "ruedarun"; }
};

// The descriptor that this process has inherited under the number, and as the file, that a variable of the
// environment names. None where it has not.
Descriptor inherited_descriptor(const char* variable);

// A thread of this process that gets the signal writes its stack into the file. False without an agent. The
// line stays open for programs that take the place of this one.
bool tell_stacks(int signal, int file);

// "lost RANK WORDS"; false when `packet` is something else.
bool read_lost(std::string_view packet, LostPeer& lost);

}  // namespace rueda
