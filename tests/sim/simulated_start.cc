// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/simulated_start.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "core/base/config.h"

namespace rueda {
namespace {

// As long as those of a rank that has shared memory and two network cards.
constexpr std::size_t kCardBytes = 130;
constexpr std::size_t kRelayBytes = 45;

Introduction introduction_of(Rank rank, const std::string& host) {
  Introduction own{rank,          "0.1.0", host,
                   10'000 + rank, {},      std::string(kCardBytes, static_cast<char>('a' + rank % 26))};
  for (const Setting& setting : settings())
    own.settings.push_back(fmt::format("{}={}", setting.name, setting.show(Config{})));
  if (rank != 0) own.relay = std::string(kRelayBytes, static_cast<char>('a' + rank % 26));
  return own;
}

}  // namespace

double transfer_time(std::uint64_t bytes, double gigabits) {
  constexpr double kBytesOfGigabit = 1e9 / 8 / 1e6;  // in a microsecond
  return static_cast<double>(bytes) / (gigabits * kBytesOfGigabit);
}

SimulatedStart::SimulatedStart(std::vector<std::string> hosts, const ClusterShape& shape,
                               const StartCosts& costs)
    : hosts_(std::move(hosts)),
      shape_(shape),
      costs_(costs),
      root_(introduction_of(0, hosts_.front()), size(), {}, size()) {}

// A connection takes a way there and back before rank 0 is busy with it.
std::optional<double> SimulatedStart::hear_next() {
  if (heard_ == waiting_.size()) return std::nullopt;
  const auto [rank, came] = waiting_[heard_++];
  free_at_ = std::max(free_at_, came + 2 * shape_.hop);
  Bootstrap other(introduction_of(rank, hosts_[static_cast<std::size_t>(rank)]), size(), {}, size());
  for (const Envelope& hello : other.take_outgoing()) {
    free_at_ += costs_.connect + shape_.message + transfer_time(hello.bytes.size(), costs_.gigabits);
    result_.root_received += hello.bytes.size();
    root_.receive(rank, hello.bytes);
  }
  ++result_.connections;
  return free_at_;
}

std::vector<double> SimulatedStart::tell_all() {
  if (!root_.welcome() || !root_.welcome()->status.ok()) throw std::runtime_error("rank 0 welcomes nobody");
  if (root_.welcome()->hosts != hosts_) throw std::runtime_error("rank 0 tells of other hosts");
  result_.all_heard = free_at_;
  parents_ = tree::parents_by_host(hosts_);
  std::vector<double> told(hosts_.size());
  Bytes welcome;
  std::uint64_t own_children = 0;
  for (const Envelope& envelope : root_.take_outgoing()) {
    free_at_ += shape_.message + transfer_time(envelope.bytes.size(), costs_.gigabits);
    result_.root_sent += envelope.bytes.size();
    told[static_cast<std::size_t>(envelope.peer)] = free_at_ + shape_.hop;
    if (parents_[static_cast<std::size_t>(envelope.peer)] != 0) continue;
    ++own_children;
    welcome = envelope.bytes;
  }
  const auto expected = std::ranges::count(parents_, 0) - 1;
  if (std::cmp_not_equal(own_children, expected))
    throw std::runtime_error(fmt::format("rank 0 tells {} ranks, not {}", own_children, expected));
  told[0] = free_at_;
  result_.list = welcome.size();
  result_.direct = welcome.size() * static_cast<std::uint64_t>(size() - 1);
  check_a_relay(welcome);
  relay(welcome, told);
  return told;
}

// A rank's children have connected while the Welcome was on its way, or it waits for them. Parents have lower
// numbers. `told`: when each rank has the Welcome, or has been referred.
void SimulatedStart::relay(const Bytes& welcome, std::vector<double>& told) {
  std::vector<double> free_at = told;
  std::vector<std::uint64_t> sent(told.size());
  for (Rank rank = 1; rank < size(); ++rank) {
    const Rank parent = parents_[rank];
    if (parent != 0) {
      const double asked = told[rank] + 2 * shape_.hop;
      free_at[parent] = std::max(free_at[parent], asked) + costs_.connect + shape_.message +
                        transfer_time(welcome.size(), costs_.gigabits);
      sent[parent] += welcome.size();
      told[rank] = free_at[rank] = free_at[parent] + shape_.hop;
    }
  }
  result_.all_told = *std::ranges::max_element(told);
  result_.most_relayed = *std::ranges::max_element(sent);
}

void SimulatedStart::check_a_relay(const Bytes& welcome) const {
  const auto first = std::ranges::find_if(parents_, [](Rank parent) { return parent != 0; });
  if (first == parents_.end()) return;
  const Rank rank = *first;
  Bootstrap relay(introduction_of(rank, hosts_[static_cast<std::size_t>(rank)]), size(), {}, size());
  static_cast<void>(relay.take_outgoing());
  relay.receive(0, welcome);
  std::vector<Rank> children;
  for (const Envelope& envelope : relay.take_outgoing()) {
    if (envelope.bytes != welcome) throw std::runtime_error(fmt::format("rank {} relays other bytes", rank));
    children.push_back(envelope.peer);
  }
  std::vector<Rank> expected;
  for (Rank child = 0; child < size(); ++child) {
    if (parents_[child] == rank) expected.push_back(child);
  }
  if (children != expected)
    throw std::runtime_error(
        fmt::format("rank {} relays to {} ranks, not to {}", rank, children.size(), expected.size()));
}

StartResult simulate_start(const ClusterShape& shape, const StartCosts& costs) {
  std::vector<std::string> hosts;
  for (Rank rank = 0; rank < shape.ranks; ++rank) hosts.push_back(host_name(rank, shape));
  SimulatedStart start(std::move(hosts), shape, costs);
  for (Rank rank = 1; rank < shape.ranks; ++rank) start.come(rank, 0);
  while (start.hear_next()) {}
  start.tell_all();
  return start.result();
}

}  // namespace rueda
