// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/elastic/simulated_losses.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <stdexcept>
#include <vector>

#include "tests/sim/elastic/event_queue.h"

namespace rueda {
namespace {

using State = SimulatedProcess::State;

constexpr std::uint64_t kSurplus = 10;  // generations for which nothing has happened
constexpr double kLongest = 3600e6;     // no job takes so long to go on

// Different ones of the numbers below `count`; the first is 0 where that is asked.
std::vector<int> some_of(int count, int wanted, bool with_0, std::mt19937& random) {
  std::vector<int> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  std::shuffle(all.begin() + (with_0 ? 1 : 0), all.end(), random);
  all.resize(static_cast<std::size_t>(std::min(wanted, count)));
  return all;
}

// Purpose: what is to happen to which rank and host. A plain value.
struct Fates {
  std::vector<Worker> lost;
  std::vector<int> lost_hosts;
  std::vector<int> joining;  // hosts on which workers come
};

// Lost ranks are on hosts that live.
Fates fates_of(const ClusterShape& shape, const Losses& losses, std::mt19937& random) {
  const int hosts = (shape.ranks + shape.ranks_per_host - 1) / shape.ranks_per_host;
  Fates fates;
  fates.lost_hosts = some_of(hosts, losses.hosts, losses.root && losses.ranks == 0, random);
  const auto host_is_lost = [&](int host) {
    return std::ranges::find(fates.lost_hosts, host) != fates.lost_hosts.end();
  };
  for (const Worker worker : some_of(shape.ranks, shape.ranks, losses.root, random)) {
    if (std::cmp_equal(fates.lost.size(), losses.ranks)) break;
    if (!host_is_lost(worker / shape.ranks_per_host)) fates.lost.push_back(worker);
  }
  for (int host = 0; std::cmp_less(fates.joining.size(), losses.joins); host = (host + 1) % hosts)
    if (!host_is_lost(host)) fates.joining.push_back(host);
  return fates;
}

// Purpose: one job, from the first loss until nothing happens any more.
class LosingJob {
 public:
  LosingJob(const ClusterShape& shape, const StartCosts& start, const Losses& losses)
      : losses_(losses),
        costs_{shape.hop, losses.message, start.gigabits},
        random_(losses.habits.seed),
        fates_(fates_of(shape, losses, random_)),
        workers_(clock_, shape, start, costs_, losses.habits),
        supervisor_(clock_, costs_, limits(shape), shape.ranks, workers_.by_host(),
                    [this](int host, const std::shared_ptr<const Bytes>& bytes, double time) {
                      clock_.at(time, [this, host, bytes] { workers_.tell_agent(host, *bytes); });
                    }) {
    workers_.connect(supervisor_);
  }

  LossesResult run() {
    plan();
    const std::uint64_t most =
        fates_.lost.size() + fates_.lost_hosts.size() + 2 * fates_.joining.size() + kSurplus;
    clock_.run(
        [&] { return supervisor_.membership().generation().number > most || clock_.now() > kLongest; });
    return result();
  }

 private:
  static constexpr double kBegin = 1;

  // All that come may take part.
  Membership::Limits limits(const ClusterShape& shape) const {
    const auto on_lost_hosts = static_cast<Rank>(fates_.lost_hosts.size()) * shape.ranks_per_host;
    const Rank lost = std::min<Rank>(shape.ranks, static_cast<Rank>(fates_.lost.size()) + on_lost_hosts);
    return {.least = 1,
            .most = std::max(shape.ranks, shape.ranks - lost + losses_.joins),
            .timeout = std::chrono::seconds(600),
            .resets = {}};
  }
  void plan();
  LossesResult result() const;

  const Losses& losses_;
  const SupervisorCosts costs_;
  std::mt19937 random_;
  const Fates fates_;
  EventQueue clock_;
  SimulatedWorkers workers_;
  SimulatedSupervisor supervisor_;
};

// The first thing happens at once.
void LosingJob::plan() {
  std::uniform_real_distribution<double> later(0, losses_.within);
  double time = kBegin;
  const auto next = [&] { return std::exchange(time, kBegin + later(random_)); };
  for (const int host : fates_.lost_hosts) clock_.at(next(), [this, host] { workers_.lose_host(host); });
  for (const Worker worker : fates_.lost) clock_.at(next(), [this, worker] { workers_.lose(worker); });
  for (const int host : fates_.joining) clock_.at(next(), [this, host] { workers_.join(host); });
}

LossesResult LosingJob::result() const {
  const Generation& last = supervisor_.membership().generation();
  LossesResult result{.generations = last.number,
                      .all_broken = workers_.seen().all_broken - kBegin,
                      .decided = supervisor_.decided() - kBegin,
                      .ranks = last.workers.count(),
                      .supervisor_received = supervisor_.received(),
                      .supervisor_sent = supervisor_.sent(),
                      .root_received = workers_.seen().root_received,
                      .root_sent = workers_.seen().root_sent,
                      .text = workers_.seen().longest_text,
                      .seconds_of_membership = supervisor_.seconds_of_membership()};
  Worker worker = 0;
  Rank inside = 0, alive = 0;
  for (const SimulatedProcess& each : workers_.processes()) {
    const bool member = last.workers.contains(worker++);
    const bool is_in = each.state == State::inside && *each.mine == last;
    alive += each.state == State::dead ? 0 : 1;
    inside += is_in && member ? 1 : 0;
    if (is_in) result.all_in = std::max(result.all_in, each.since - kBegin);
  }
  if (inside != alive || inside != result.ranks)
    throw std::runtime_error(fmt::format("{} of {} workers are in generation {}, which has {}", inside, alive,
                                         last.number, result.ranks));
  return result;
}

}  // namespace

LossesResult simulate_losses(const ClusterShape& shape, const StartCosts& start, const Losses& losses) {
  return LosingJob(shape, start, losses).run();
}

}  // namespace rueda
