// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/simulated_start.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/base/config.h"
#include "core/control/bootstrap/bootstrap.h"

namespace rueda {
namespace {

// As long as those of a rank that has shared memory and two network cards.
constexpr std::size_t kCardBytes = 130;
constexpr std::size_t kRelayBytes = 45;

Introduction introduction_of(Rank rank, const ClusterShape& shape) {
  Introduction own{rank,          "0.1.0", host_name(rank, shape),
                   10'000 + rank, {},      std::string(kCardBytes, static_cast<char>('a' + rank % 26))};
  for (const Setting& setting : settings())
    own.settings.push_back(fmt::format("{}={}", setting.name, setting.show(Config{})));
  if (rank != 0) own.relay = std::string(kRelayBytes, static_cast<char>('a' + rank % 26));
  return own;
}

// Purpose: carries one start out, stage by stage.
class Start {
 public:
  Start(const ClusterShape& shape, const StartCosts& costs)
      : shape_(shape), costs_(costs), root_(introduction_of(0, shape), shape.ranks, {}, shape.ranks) {}

  StartResult run() {
    hear_all();
    tell_all();
    return result_;
  }

 private:
  double transfer(std::uint64_t bytes) const {
    constexpr double kBytesOfGigabit = 1e9 / 8 / 1e6;  // in a microsecond
    return static_cast<double>(bytes) / (costs_.gigabits * kBytesOfGigabit);
  }

  void hear_all();
  void tell_all();
  void relay(const Bytes& welcome);
  void check_a_relay(const Bytes& welcome) const;

  const ClusterShape& shape_;
  const StartCosts& costs_;
  Bootstrap root_;
  StartResult result_;
  std::vector<std::string> hosts_;
  std::vector<Rank> parents_;
  std::vector<double> told_;  // when each rank has the Welcome, or has been referred
};

// Rank 0 takes one connection after another; all were there at once.
void Start::hear_all() {
  double time = 2 * shape_.hop;
  for (Rank rank = 1; rank < shape_.ranks; ++rank) {
    Bootstrap other(introduction_of(rank, shape_), shape_.ranks, {}, shape_.ranks);
    for (const Envelope& hello : other.take_outgoing()) {
      time += costs_.connect + shape_.message + transfer(hello.bytes.size());
      result_.root_received += hello.bytes.size();
      root_.receive(rank, hello.bytes);
    }
    ++result_.connections;
  }
  if (!root_.welcome() || !root_.welcome()->status.ok()) throw std::runtime_error("rank 0 welcomes nobody");
  result_.all_heard = time;
}

void Start::tell_all() {
  hosts_ = root_.welcome()->hosts;
  parents_ = tree::parents_by_host(hosts_);
  told_.assign(hosts_.size(), 0);
  double time = result_.all_heard;
  Bytes welcome;
  std::uint64_t own_children = 0;
  for (const Envelope& envelope : root_.take_outgoing()) {
    time += shape_.message + transfer(envelope.bytes.size());
    result_.root_sent += envelope.bytes.size();
    told_[envelope.peer] = time + shape_.hop;
    if (parents_[envelope.peer] != 0) continue;
    ++own_children;
    welcome = envelope.bytes;
  }
  const auto expected = std::ranges::count(parents_, 0) - 1;
  if (std::cmp_not_equal(own_children, expected))
    throw std::runtime_error(fmt::format("rank 0 tells {} ranks, not {}", own_children, expected));
  result_.list = welcome.size();
  result_.direct = welcome.size() * static_cast<std::uint64_t>(shape_.ranks - 1);
  check_a_relay(welcome);
  relay(welcome);
}

// A rank's children have connected while the Welcome was on its way, or it waits for them. Parents have lower
// numbers.
void Start::relay(const Bytes& welcome) {
  std::vector<double> free_at = told_;
  std::vector<std::uint64_t> sent(told_.size());
  for (Rank rank = 1; rank < shape_.ranks; ++rank) {
    const Rank parent = parents_[rank];
    if (parent != 0) {
      const double asked = told_[rank] + 2 * shape_.hop;
      free_at[parent] =
          std::max(free_at[parent], asked) + costs_.connect + shape_.message + transfer(welcome.size());
      sent[parent] += welcome.size();
      told_[rank] = free_at[rank] = free_at[parent] + shape_.hop;
    }
  }
  result_.all_told = *std::ranges::max_element(told_);
  result_.most_relayed = *std::ranges::max_element(sent);
}

void Start::check_a_relay(const Bytes& welcome) const {
  const auto first = std::ranges::find_if(parents_, [](Rank parent) { return parent != 0; });
  if (first == parents_.end()) return;
  const Rank rank = *first;
  Bootstrap relay(introduction_of(rank, shape_), shape_.ranks, {}, shape_.ranks);
  static_cast<void>(relay.take_outgoing());
  relay.receive(0, welcome);
  std::vector<Rank> children;
  for (const Envelope& envelope : relay.take_outgoing()) {
    if (envelope.bytes != welcome) throw std::runtime_error(fmt::format("rank {} relays other bytes", rank));
    children.push_back(envelope.peer);
  }
  std::vector<Rank> expected;
  for (Rank child = 0; child < shape_.ranks; ++child) {
    if (parents_[child] == rank) expected.push_back(child);
  }
  if (children != expected)
    throw std::runtime_error(
        fmt::format("rank {} relays to {} ranks, not to {}", rank, children.size(), expected.size()));
}

}  // namespace

StartResult simulate_start(const ClusterShape& shape, const StartCosts& costs) {
  return Start(shape, costs).run();
}

}  // namespace rueda
