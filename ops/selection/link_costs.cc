// SPDX-License-Identifier: Apache-2.0
#include "ops/selection/link_costs.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <numeric>
#include <set>
#include <span>
#include <sstream>
#include <thread>
#include <utility>

#include "core/base/number.h"
#include "core/base/time.h"
#include "core/observe/rank_file.h"
#include "ops/link/channel.h"
#include "ops/schedules/recursive_doubling.h"

namespace rueda {
namespace {

constexpr std::uint32_t kAtOnce = 4;    // messages, before it is asked whether more follow
constexpr double kRootTimeout = 0.9;    // seconds, of rank 0 for all of it
constexpr double kOthersTimeout = 2.0;  // of the others, until the rest begin and then for all of it
// If many ranks share few cores, a rank that waits for a message first yields for this long. Then the rank
// sleeps for a quarter of the time that it has waited, to leave its core to others.
constexpr auto kSpinning = std::chrono::microseconds(200);
constexpr Duration kShortestNap = std::chrono::microseconds(50), kLongestNap = std::chrono::milliseconds(5);
constexpr std::size_t kMostOfFile = 64 << 10;

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

double seconds_since(Time begin) { return std::chrono::duration<double>(clock_now() - begin).count(); }

// Purpose: the messages of one rank. Lives for one measurement, on the background thread.
class Exchanges {
 public:
  static constexpr std::uint32_t kMostBytes = 64 << 10;

  // `crowded`: many ranks share few cores.
  Exchanges(Link& link, double timeout, bool crowded, const std::function<void()>& alive)
      : channel_(link, link.largest_tag()),
        end_(clock_now() + from_seconds(timeout)),
        crowded_(crowded),
        alive_(alive) {}

  // The messages of an allreduce of so many bytes by recursive doubling among `ranks`, of which this rank is
  // one; false once the time is over.
  bool double_up(std::span<const Rank> ranks, Rank index, std::uint32_t bytes) {
    return each_step(ranks, index, {sent_.data(), bytes}, {received_.data(), bytes}, [](const PairStep&) {});
  }

  // The number that the first of `ranks` gives, on each of them; nothing once the time is over.
  std::optional<std::uint32_t> hear_from_the_first(std::span<const Rank> ranks, Rank index,
                                                   std::uint32_t number) {
    std::uint32_t known = index == 0 ? number : 0, theirs = 0;
    const bool all = each_step(ranks, index, std::as_bytes(std::span(&known, 1)),
                               std::as_writable_bytes(std::span(&theirs, 1)), [&](const PairStep& step) {
                                 if (step.receives()) known = std::max(known, theirs);
                               });
    return all ? std::optional(known) : std::nullopt;
  }

 private:
  template <class Done>
  bool each_step(std::span<const Rank> ranks, Rank index, ConstBytes sent, std::span<std::byte> received,
                 Done done) {
    const auto size = static_cast<Rank>(ranks.size());
    return std::ranges::all_of(doubling_steps(index, size), [&](const PairStep& step) {
      const Rank peer = ranks[static_cast<std::size_t>(step.peer)];
      Transfer receive, send;
      if (step.receives()) receive = channel_.receive(peer, received);
      if (step.sends()) send = channel_.send(peer, sent);
      if (!finish(receive, send)) return false;
      done(step);
      return true;
    });
  }

  bool finish(Transfer& one, Transfer& other) {
    for (const Time begin = clock_now(); !(one.done() & other.done());) {
      const Time now = clock_now();
      if (now > end_) return false;
      alive_();
      if (!crowded_ || now - begin < kSpinning) {
        sched_yield();
      } else {
        std::this_thread::sleep_for(std::clamp((now - begin) / 4, kShortestNap, kLongestNap));
      }
    }
    return true;
  }

  Channel channel_;
  Time end_;
  bool crowded_;
  const std::function<void()>& alive_;
  std::vector<std::byte> sent_ = std::vector<std::byte>(kMostBytes);
  std::vector<std::byte> received_ = std::vector<std::byte>(kMostBytes);
};

// Purpose: which messages are timed, and for how long.
struct Series {
  std::uint32_t bytes;
  double enough;     // seconds of messages
  std::size_t most;  // of them
};
// While all ranks send theirs, as they do in an allreduce: two ranks alone may have idle cores and cards that
// all together have not.
constexpr Series kShort{4, 0.01, 16};
// Between hosts, until it is known what the network carries for a while: many take bursts at once first.
constexpr Series kLong{Exchanges::kMostBytes, 0.05, 32};

// The seconds of one message. The first of `ranks` says how many follow, none unless `wanted`. Nothing once
// the time is over, or where none was wanted.
std::optional<double> seconds_of(const Series& series, Exchanges& exchanges, std::span<const Rank> ranks,
                                 Rank index, bool wanted) {
  const Rank rounds = doubling_rounds(static_cast<Rank>(ranks.size()));
  std::vector<double> seconds;
  double spent = 0;
  while (true) {
    std::uint32_t times = seconds.empty() || seconds.front() * rounds > series.enough / 8 ? 1 : kAtOnce;
    if (!wanted || spent > series.enough || seconds.size() >= series.most) times = 0;
    const std::optional<std::uint32_t> agreed = exchanges.hear_from_the_first(ranks, index, times);
    if (!agreed || *agreed > kAtOnce) return std::nullopt;
    if (*agreed == 0) break;
    for (std::uint32_t i = 0; i < *agreed; ++i) {
      const Time begin = clock_now();
      if (!exchanges.double_up(ranks, index, series.bytes)) return std::nullopt;
      const double all = seconds_since(begin);
      spent += all;
      seconds.push_back(all / rounds);
    }
  }
  if (seconds.empty()) return std::nullopt;
  seconds.erase(seconds.begin(), seconds.begin() + std::ssize(seconds) / 2);
  return median(std::move(seconds));
}

// The first rank of each host.
std::vector<Rank> first_ranks(const std::vector<std::string>& hosts) {
  std::vector<Rank> first;
  std::set<std::string_view> seen;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    if (seen.insert(hosts[rank]).second) first.push_back(static_cast<Rank>(rank));
  }
  return first;
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
  const std::optional<double> value = number_from<double>(word);
  return value && *value >= 0 && *value <= kMost ? value : std::nullopt;
}

}  // namespace

std::optional<LinkCosts> measure_costs(Link& link, Rank rank, const std::vector<std::string>& hosts,
                                       bool wanted, const std::function<void()>& alive) {
  const std::vector<Rank> first = first_ranks(hosts);
  if (first.size() < 2) return std::nullopt;
  const auto here = std::ranges::count(hosts, hosts[static_cast<std::size_t>(rank)]);
  const bool crowded = std::cmp_greater(here, 2 * std::thread::hardware_concurrency());
  Exchanges exchanges(link, rank == 0 ? kRootTimeout : kOthersTimeout, crowded, alive);
  std::vector<Rank> all(hosts.size());
  std::iota(all.begin(), all.end(), 0);
  const std::optional<double> message = seconds_of(kShort, exchanges, all, rank, wanted);
  const auto own = std::ranges::find(first, rank);
  if (!message || own == first.end()) return std::nullopt;
  const std::optional<double> of_long =
      seconds_of(kLong, exchanges, first, static_cast<Rank>(own - first.begin()), wanted);
  if (rank != 0 || !of_long) return std::nullopt;
  return LinkCosts{*message, std::max(0.0, *of_long - *message) / kLong.bytes};
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
