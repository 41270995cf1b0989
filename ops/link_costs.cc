// SPDX-License-Identifier: Apache-2.0
#include "ops/link_costs.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <sstream>

#include "core/base/time.h"
#include "core/observe/rank_file.h"
#include "ops/doubling.h"
#include "ops/transfer.h"

namespace rueda {
namespace {

constexpr std::uint32_t kShort = 4, kLong = 64 << 10;
constexpr std::uint32_t kMostTimes = 16;
constexpr double kPatience = 0.9;        // seconds, of rank 0 for all of it
constexpr double kOthersPatience = 2.0;  // of the others, until the rest begin and then for all of it
constexpr double kEnough = 0.05;         // seconds of long messages
constexpr std::size_t kMostLong = 64;    // messages
constexpr std::size_t kMostOfFile = 64 << 10;

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

double seconds_since(Time begin) { return std::chrono::duration<double>(clock_now() - begin).count(); }

// Purpose: the messages of one rank. Lives for one measurement, on the coordinator thread.
class Exchanges {
 public:
  Exchanges(Link& link, double patience, const std::function<void()>& alive)
      : wire_(link, link.largest_tag()), end_(clock_now() + from_seconds(patience)), alive_(alive) {}

  // Both send so many bytes; false once the time is over.
  bool exchange(Rank peer, std::uint32_t bytes) {
    Transfer receive = wire_.receive(peer, {received_.data(), bytes});
    Transfer send = wire_.send(peer, {sent_.data(), bytes});
    return finish(receive, send);
  }
  // The messages of a short allreduce among all ranks.
  bool double_up(Rank rank, Rank ranks) {
    return std::ranges::all_of(doubling_steps(rank, ranks), [this](const DoublingStep& step) {
      Transfer receive, send;
      if (step.receives()) receive = wire_.receive(step.peer, {received_.data(), kShort});
      if (step.sends()) send = wire_.send(step.peer, {sent_.data(), kShort});
      return finish(receive, send);
    });
  }

  // What is exchanged next; no bytes: nothing more.
  struct Round {
    std::uint32_t bytes = 0;
    std::uint32_t times = 0;
  };
  bool announce(Rank peer, Round round) {
    Transfer none, send = wire_.send(peer, std::as_bytes(std::span(&round, 1)));
    return finish(none, send);
  }
  std::optional<Round> hear(Rank peer) {
    Round round;
    Transfer none, receive = wire_.receive(peer, std::as_writable_bytes(std::span(&round, 1)));
    if (!finish(receive, none)) return std::nullopt;
    return round;
  }

 private:
  bool finish(Transfer& one, Transfer& other) {
    while (!(one.done() & other.done())) {
      if (clock_now() > end_) return false;
      alive_();
      sched_yield();
    }
    return true;
  }

  Wire wire_;
  Time end_;
  const std::function<void()>& alive_;
  std::vector<std::byte> sent_ = std::vector<std::byte>(kLong);
  std::vector<std::byte> received_ = std::vector<std::byte>(kLong);
};

// The seconds of one message while all ranks send theirs, as they do in an allreduce: two ranks alone may
// have idle cores and cards that all together have not. Nothing once the time is over.
std::optional<double> message_among_all(Exchanges& exchanges, Rank rank, Rank ranks) {
  std::vector<double> seconds;
  for (std::uint32_t i = 0; i < kMostTimes; ++i) {
    const Time begin = clock_now();
    if (!exchanges.double_up(rank, ranks)) return std::nullopt;
    seconds.push_back(seconds_since(begin) / doubling_rounds(ranks));
  }
  return median(std::move(seconds));
}

// Long messages until it is known what the network carries for a while: many take bursts at once first.
// Seconds of one; nothing once the time is over.
std::optional<double> ask_for_long_ones(Exchanges& exchanges, Rank partner) {
  std::vector<double> seconds;
  for (double spent = 0; spent < kEnough && seconds.size() < kMostLong;) {
    const std::uint32_t times = seconds.empty() || seconds.front() > kEnough / 4 ? 1 : 4;
    if (!exchanges.announce(partner, {kLong, times})) return std::nullopt;
    for (std::uint32_t i = 0; i < times; ++i) {
      const Time begin = clock_now();
      if (!exchanges.exchange(partner, kLong)) return std::nullopt;
      seconds.push_back(seconds_since(begin));
      spent += seconds.back();
    }
  }
  seconds.erase(seconds.begin(), seconds.begin() + std::ssize(seconds) / 2);
  return median(std::move(seconds));
}

void answer(Exchanges& exchanges, Rank asking) {
  while (const std::optional<Exchanges::Round> round = exchanges.hear(asking)) {
    if (round->bytes == 0 || round->bytes > kLong || round->times > kMostTimes) return;
    for (std::uint32_t i = 0; i < round->times; ++i) {
      if (!exchanges.exchange(asking, round->bytes)) return;
    }
  }
}

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMostOfFile, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

// Of "name=43.1"; nothing if it is something else.
std::optional<double> value_of(std::string_view word, std::string_view name) {
  constexpr double kMost = 1e7;
  if (!word.starts_with(name)) return std::nullopt;
  word.remove_prefix(name.size());
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  const bool whole = error == std::errc() && end == word.data() + word.size();
  return whole && value >= 0 && value <= kMost ? std::optional(value) : std::nullopt;
}

}  // namespace

std::optional<LinkCosts> measure_costs(Link& link, Rank rank, const std::vector<std::string>& hosts,
                                       bool wanted, const std::function<void()>& alive) {
  const auto elsewhere = std::ranges::find_if(hosts, [&](const auto& host) { return host != hosts.front(); });
  if (elsewhere == hosts.end()) return std::nullopt;
  const auto partner = static_cast<Rank>(elsewhere - hosts.begin());
  Exchanges exchanges(link, rank == 0 ? kPatience : kOthersPatience, alive);
  const std::optional<double> message = message_among_all(exchanges, rank, static_cast<Rank>(hosts.size()));
  if (!message) return std::nullopt;
  if (rank == partner) answer(exchanges, 0);
  if (rank != 0) return std::nullopt;
  const std::optional<double> of_long = wanted ? ask_for_long_ones(exchanges, partner) : std::nullopt;
  exchanges.announce(partner, {});
  if (!of_long) return std::nullopt;
  return LinkCosts{*message, std::max(0.0, *of_long - *message) / kLong};
}

SavedCosts read_costs(const std::string& path, std::string_view link) {
  SavedCosts saved;
  std::istringstream lines(text_of(path));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name, message, byte, more;
    words >> name >> message >> byte;
    if (name.empty() || name.starts_with('#')) continue;
    const auto message_us = value_of(message, "message_us="), byte_ns = value_of(byte, "byte_ns=");
    if (!message_us || !byte_ns || words >> more) {
      saved.status = Status::invalid_argument(
          fmt::format("{}: '{:.80}' is no line like 'tcp message_us=43.1 byte_ns=40.2'", path, line));
      return saved;
    }
    if (name == link) saved.costs = LinkCosts{*message_us * 1e-6, *byte_ns * 1e-9};
  }
  return saved;
}

Status save_costs(const std::string& path, std::string_view link, const LinkCosts& costs) {
  std::string text = text_of(path);
  if (text.empty()) text = "# Rueda: what a message between hosts costs, as measured when a job started.\n";
  text += fmt::format("{} message_us={:.2f} byte_ns={:.4f}\n", link, costs.message * 1e6, costs.byte * 1e9);
  return replace_file(path, text);
}

}  // namespace rueda
