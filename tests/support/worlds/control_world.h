// SPDX-License-Identifier: Apache-2.0
// The control plane of many ranks in one process: messages between any two ranks keep their order, all else
// is random.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/control/negotiation/negotiator.h"

namespace rueda {

// An allreduce of `shape` float32 values.
Request request_for(const std::string& name, Shape shape = {4});

// Purpose: N Negotiators and the messages under way between them. Time stands still unless the test moves it.
class ControlWorld {
 public:
  struct Options {
    Rank ranks_per_host = 8;
    std::vector<std::string> hosts;  // of each rank; empty: ranks_per_host on each
    Rank radix = tree::kRadix;
    Duration linger{};
    std::int64_t fusion_threshold = 1 << 20;
    std::int64_t cache_least = 64;
    bool full_join = false;
    Duration stall_report{};
    Duration stall_fail{};
    unsigned together = 1;  // a rank speaks after each of so many messages in the mean, not after every one
  };

  ControlWorld(Rank size, std::uint32_t seed, Options options);
  ControlWorld(Rank size, std::uint32_t seed) : ControlWorld(size, seed, Options()) {}

  Rank size() const { return static_cast<Rank>(nodes_.size()); }
  Negotiator& node(Rank rank) { return *nodes_[rank]; }
  const std::vector<Plan>& plans(Rank rank) const { return plans_[rank]; }
  const std::vector<Abort>& aborts(Rank rank) const { return aborts_[rank]; }
  std::vector<std::string>& reports() { return reports_; }
  std::mt19937& random() { return random_; }
  Time now{};
  bool works_run = true;

  void submit(Rank rank, Request request);
  void submit_everywhere(const Request& request);
  // It rests at once, too: here no Work can fail after that.
  void depart(Rank rank);
  // The rank hears and says nothing any more.
  void silence(Rank rank) { silent_[rank] = true; }
  // What `rank` answers when others wait for it.
  std::function<StallInspector::OwnState(Rank, const Asked&)> own_state;
  // Sees each Plan of a rank as it comes out, and each message as it is sent. May change them: planted
  // faults.
  std::function<void(Rank, Plan&)> arrived;
  std::function<void(Rank, const Abort&)> aborted;
  std::function<void(Rank from, Rank to, Bytes&)> sent;

  // What the rank has to say is under way, and its Plans are out. One that has failed then falls silent.
  void collect(Rank rank);
  void post(Rank from, Rank to, Bytes bytes);
  // Delivers one message of a random pair; false when none is under way.
  bool deliver_one();
  // Until nothing is under way.
  void settle();
  // The same, with time going on in steps.
  void settle_for(Duration time, Duration step);

  // Every rank has got the same Plans in the same order; ends the test if not.
  void expect_same_plans() const;
  std::size_t largest_message() const { return largest_; }
  std::size_t messages() const { return messages_; }

 private:
  std::mt19937 random_;
  std::vector<std::unique_ptr<Negotiator>> nodes_;
  std::vector<std::vector<Plan>> plans_;
  std::vector<std::vector<Abort>> aborts_;
  std::vector<std::string> reports_;
  std::vector<ByKey<CacheId>> last_ids_;  // by rank: as its background thread remembers them
  const unsigned together_;
  std::vector<bool> silent_;
  std::vector<Rank> unasked_;  // have got messages and said nothing yet; some of them twice
  std::map<std::pair<Rank, Rank>, std::deque<Bytes>> under_way_;
  std::vector<std::pair<Rank, Rank>> ready_;  // pairs with something under way
  std::size_t largest_ = 0;
  std::size_t messages_ = 0;
};

// The names of all tensors of `plans`, sorted.
std::vector<std::string> names_of(const std::vector<Plan>& plans);

}  // namespace rueda
