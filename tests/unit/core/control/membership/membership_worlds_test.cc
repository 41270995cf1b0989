// SPDX-License-Identifier: Apache-2.0
// Membership among workers that die, join, leave and are late, in random worlds; and worlds with a fault,
// which has to show.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <map>
#include <queue>
#include <random>
#include <set>
#include <utility>

#include "core/control/membership/membership.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;

// A mistake that ruedarun could make.
enum class Fault {
  none,
  keeps_a_lost_one,
  ignores_who_leaves,
  forgets_an_end,
  forgets_joiners,
  forgets_who_is_to_go
};

// Purpose: a worker as ElasticWorker and the start of a job behave.
struct SimulatedWorker {
  enum class State { waiting, forming, inside, finished, dead };
  State state = State::waiting;
  std::optional<std::uint64_t> tried;
  Generation heard;  // the newest
  bool has_heard = false;
};

// Purpose: one job on one clock. Messages take random times, and keep their order between any two.
class World {
 public:
  World(std::uint32_t seed, Fault fault)
      : random_(seed),
        fault_(fault),
        first_(pick(1, 6)),
        limits_{.least = pick(1, first_), .most = first_ + pick(0, 2), .timeout = 60s, .resets = {}},
        membership_(limits_, first_) {
    for (Worker worker = 0; worker < first_; ++worker) start(worker);
    tell_all();
  }

  // Empty where all went well; else what is wrong.
  std::string run() {
    const int faults = pick(0, 8);
    for (int i = 0; i < faults; ++i) later(ms(pick(0, 4000)), [this] { disturb(); });
    for (int i = 0; i < pick(0, 2); ++i) later(ms(pick(0, 4000)), [this] { start(next_++); });
    for (int i = 0; i < pick(0, 2); ++i) later(ms(pick(0, 4000)), [this] { retire_one(); });
    run_until(now_ + 30s);
    if (!wrong_.empty() || !membership_.failure().empty()) return wrong_;
    check_all_are_inside();
    if (!wrong_.empty()) return wrong_;
    for (auto& [worker, about] : workers_)
      if (about.state == SimulatedWorker::State::inside) finish(worker);
    run_until(now_ + 30s);
    if (!membership_.is_over()) return "the job does not end";
    return wrong_;
  }

 private:
  using State = SimulatedWorker::State;
  struct Event {
    Time at;
    std::uint64_t order = 0;
    std::function<void()> act;
    bool operator>(const Event& other) const { return std::tie(at, order) > std::tie(other.at, other.order); }
  };

  int pick(int least, int most) { return std::uniform_int_distribution(least, most)(random_); }
  static Duration ms(int count) { return std::chrono::milliseconds(count); }
  void later(Duration after, std::function<void()> act) {
    events_.push({now_ + after, order_++, std::move(act)});
  }
  // On the way from `from` to `to`; supervisor: -1.
  void send(Worker from, Worker to, std::function<void()> arrive) {
    Time& last = last_arrival_[{from, to}];
    last = std::max(last + Duration(1), now_ + ms(pick(0, 20)));
    events_.push({last, order_++, std::move(arrive)});
  }

  void run_until(Time end) {
    while (wrong_.empty() && membership_.failure().empty()) {
      const std::optional<Time> due = membership_.due();
      const Time next = std::min(events_.empty() ? end : events_.top().at, due ? std::max(*due, now_) : end);
      if (next >= end) break;
      now_ = next;
      if (!events_.empty() && events_.top().at <= now_) {
        const auto act = events_.top().act;
        events_.pop();
        act();
      }
      decide();
    }
    now_ = end;
  }

  void decide() {
    for (const Worker worker : Generation{0, membership_.take_silent(now_)}.by_rank()) kill(worker);
    if (const std::optional<Generation> next = membership_.decide(now_)) {
      for (const Worker worker : next->by_rank())
        if (known_lost_.contains(worker)) wrong_ = "a generation has a worker that was lost before";
      tell_all();
    }
    Membership::Due due = membership_.change_due();
    if (fault_ == Fault::forgets_joiners) due.joiners = false;
    if (fault_ == Fault::forgets_who_is_to_go) due.leavers = false;
    if (due == std::exchange(told_, due) || due == Membership::Due{}) return;
    for (auto& [worker, about] : workers_)
      send(-1, worker, [this, worker] { leave_soon(worker, membership_.generation().number); });
  }

  void tell_all() {
    for (auto& [worker, about] : workers_) tell(worker);
  }
  void tell(Worker worker) {
    send(-1, worker, [this, worker, generation = membership_.generation()] {
      SimulatedWorker& about = workers_[worker];
      about.heard = generation;
      about.has_heard = true;
      look(worker);
    });
  }

  void start(Worker worker) {
    next_ = std::max(next_, worker + 1);
    workers_[worker];
    later(ms(pick(0, 300)), [this, worker] { say_ready(worker); });
  }

  void say_ready(Worker worker) {
    if (workers_[worker].state == State::dead) return;
    workers_[worker].state = State::waiting;
    send(worker, -1, [this, worker, tried = workers_[worker].tried] {
      const bool leaves = tried == membership_.generation().number;
      if (!(leaves && fault_ == Fault::ignores_who_leaves)) membership_.ready(worker, tried, now_);
    });
    tell(worker);
    look(worker);
  }

  // A worker that waits forms the newest generation; one that forms an older one gives that up.
  void look(Worker worker) {
    SimulatedWorker& about = workers_[worker];
    if (!about.has_heard || about.state == State::dead || about.state == State::finished) return;
    const bool is_newer = !about.tried || about.heard.number > *about.tried;
    if (about.state == State::waiting && is_newer && about.heard.workers.contains(worker)) {
      about.state = State::forming;
      about.tried = about.heard.number;
      meet(*about.tried, about.heard);
    } else if (about.state == State::waiting && is_newer && retired_.contains(worker)) {
      finish(worker);  // it has left
    } else if (about.state == State::forming && is_newer) {
      later(ms(pick(0, 5)), [this, worker, tried = about.tried] {
        if (workers_[worker].state == State::forming && workers_[worker].tried == tried) say_ready(worker);
      });
    } else if (about.state == State::inside && is_newer) {
      leave_soon(worker, *about.tried);
    }
  }

  void meet(std::uint64_t number, const Generation& generation) {
    for (const Worker worker : generation.by_rank())
      if (workers_[worker].state != State::forming || workers_[worker].tried != number) return;
    if (pick(0, 19) == 0) {  // a connection breaks, and nobody dies
      for (const Worker worker : generation.by_rank())
        later(ms(pick(0, 50)), [this, worker] { say_ready(worker); });
      return;
    }
    for (const Worker worker : generation.by_rank()) {
      workers_[worker].state = State::inside;
      send(worker, -1, [this, worker, number] { membership_.formed(worker, number); });
      look(worker);
    }
  }

  // At its next commit, or since the operations of others have ended.
  void leave_soon(Worker worker, std::uint64_t number) {
    later(ms(pick(1, 400)), [this, worker, number] {
      SimulatedWorker& about = workers_[worker];
      if (about.state != State::inside || about.tried != number) return;
      say_ready(worker);
      for (auto& [other, its] : workers_)
        if (its.state == State::inside && its.tried == number) leave_soon(other, number);
    });
  }

  void disturb() {
    std::vector<Worker> living;
    for (auto& [worker, about] : workers_)
      if (about.state != State::dead) living.push_back(worker);
    if (living.empty()) return;
    kill(living[static_cast<std::size_t>(pick(0, static_cast<int>(living.size()) - 1))]);
    if (pick(0, 3) == 0) disturb();
  }

  void kill(Worker worker) {
    if (workers_[worker].state == State::dead) return;
    workers_[worker].state = State::dead;
    const bool was_inside = workers_[worker].tried.has_value();
    send(worker, -1, [this, worker] {
      known_lost_.insert(worker);
      const bool keeps = fault_ == Fault::keeps_a_lost_one && !membership_.has_formed();
      if (!keeps) membership_.lost(worker);
      if (membership_.takes_more()) later(ms(pick(0, 500)), [this] { start(next_++); });
    });
    if (!was_inside) return;
    for (auto& [other, its] : workers_)
      if (its.state == State::inside) leave_soon(other, *its.tried);
  }

  // A host is to go, and its workers with it.
  void retire_one() {
    for (auto& [worker, about] : workers_) {
      if (about.state == State::dead || retired_.contains(worker) || pick(0, 2) != 0) continue;
      retired_.insert(worker);
      membership_.retire(worker);
      if (!membership_.generation().workers.contains(worker)) kill(worker);
      return;
    }
  }

  void finish(Worker worker) {
    workers_[worker].state = State::finished;
    const bool forgotten = fault_ == Fault::forgets_an_end && pick(0, 3) == 0;
    send(worker, -1, [this, worker, forgotten] {
      if (!forgotten) membership_.finished(worker);
    });
  }

  void check_all_are_inside() {
    const Generation& newest = membership_.generation();
    if (membership_.is_short()) {
      wrong_ = "too few workers, and all that could come have had time to come";
      return;
    }
    const RankSet retiring = newest.workers & membership_.retiring();
    if (!retiring.empty() && newest.workers.count() - retiring.count() >= limits_.least)
      wrong_ = "a worker is there that is to go, and the others would be enough";
    for (const Worker worker : newest.by_rank()) {
      const SimulatedWorker& about = workers_[worker];
      if (about.state != State::inside || about.tried != newest.number)
        wrong_ = "a member is not in the newest generation";
    }
    if (!membership_.has_formed()) wrong_ = "the newest generation has not formed";
    if (newest.workers.count() < std::min<Rank>(limits_.most, living()))
      wrong_ = "a worker that could take part does not";
  }
  Rank living() const {
    Rank count = 0;
    for (const auto& [worker, about] : workers_)
      count += about.state != State::dead && !retired_.contains(worker);
    return count;
  }

  std::mt19937 random_;
  const Fault fault_;
  const int first_;
  const Membership::Limits limits_;
  Membership membership_;
  std::map<Worker, SimulatedWorker> workers_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::map<std::pair<Worker, Worker>, Time> last_arrival_;
  std::set<Worker> known_lost_;
  std::uint64_t order_ = 0;
  Worker next_ = 0;
  Membership::Due told_;
  std::set<Worker> retired_;
  Time now_{};
  std::string wrong_;
};

TEST(MembershipWorlds, AllMembersMeetInTheNewestGeneration) {
  for (std::uint32_t seed = 0; seed < 500; ++seed)
    EXPECT_EQ(World(seed, Fault::none).run(), "") << "world " << seed;
}

class FaultyWorlds : public testing::TestWithParam<Fault> {};
TEST_P(FaultyWorlds, AreSeen) {
  int seen = 0;
  for (std::uint32_t seed = 0; seed < 500; ++seed) seen += !World(seed, GetParam()).run().empty();
  EXPECT_GT(seen, 0);
}
INSTANTIATE_TEST_SUITE_P(Faults, FaultyWorlds,
                         testing::Values(Fault::keeps_a_lost_one, Fault::ignores_who_leaves,
                                         Fault::forgets_an_end, Fault::forgets_joiners,
                                         Fault::forgets_who_is_to_go));

}  // namespace
}  // namespace rueda
