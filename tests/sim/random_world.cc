// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/random_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>

namespace rueda {

RandomWorld::RandomWorld(const WorldScript& script, PlantedFault* fault)
    : script_(script),
      fault_(fault),
      world_(script.size, script.seed, script.options),
      judge_(script),
      actors_(script.size),
      active_(script.size),
      tree_(tree::all_by_host(script.options.hosts, script.options.radix)) {
  world_.arrived = [this](Rank rank, Plan& plan) { arrive(rank, plan); };
  world_.aborted = [this](Rank rank, const Abort& abort) {
    judge_.aborted(rank, abort);
    restless_.push_back(rank);
  };
  if (fault_ != nullptr) {
    world_.sent = [this](Rank from, Rank to, Bytes& bytes) { fault_->pass(world_, from, to, bytes); };
  }
  std::iota(active_.begin(), active_.end(), 0);
  for (Rank rank = 0; rank < script.size; ++rank) enter_phase(rank);
}

void RandomWorld::arrive(Rank rank, Plan& plan) {
  if (fault_ != nullptr && rank == 0) fault_->change(plan);
  judge_.arrived(rank, plan);
  if (!judge_.faults().empty()) return;
  restless_.push_back(rank);
  const std::set<Rank> failing = judge_.failing(plan.number);
  if (failing.contains(rank)) {
    failures_.emplace_back(rank, plan.number);
  } else if (failing.empty() || world_.random()() % 2 == 0) {  // or it is still at it when it is told
    judge_.finished(rank, plan.number);
  }
}

// A rank says that a Plan has failed there, unless it has heard that from another.
void RandomWorld::give_up_one() {
  std::swap(failures_[world_.random()() % failures_.size()], failures_.back());
  const auto [rank, plan] = failures_.back();
  failures_.pop_back();
  if (judge_.told(rank, plan) || !world_.node(rank).failure().ok() || (lost_ && rank == *script_.lost))
    return;
  world_.node(rank).abort(plan, PlanJudge::words_of(plan, rank));
  world_.collect(rank);
}

// Who has departed and has nothing more under way; whether there was one.
bool RandomWorld::let_rest() {
  bool any = false;
  while (!restless_.empty()) {
    const Rank rank = restless_.back();
    restless_.pop_back();
    if (!actors_[rank].departed || actors_[rank].rested || !judge_.rests(rank)) continue;
    actors_[rank].rested = any = true;
    world_.node(rank).rest();
    world_.collect(rank);
  }
  return any;
}

std::vector<std::string> RandomWorld::run() {
  play();
  if (judge_.faults().empty()) {
    if (lost_) {
      check_survivors();
    } else {
      check_end();
    }
    check_sizes();
  }
  return judge_.faults();
}

void RandomWorld::play() {
  std::mt19937& random = world_.random();
  int waits = 0;
  while (judge_.faults().empty()) {
    world_.now += script_.step;
    if (script_.lost && !lost_ && actions_ >= script_.lost_after && !world_.node(*script_.lost).ended())
      lose_one();
    if (!witnesses_.empty() && random() % 8 == 0) break_off(witnesses_.back());
    if (!failures_.empty() && random() % 8 == 0) give_up_one();
    bool moved = let_rest();
    if (!active_.empty() && random() % 8 < script_.actions_in_8) {
      const Rank rank = active_[random() % active_.size()];
      moved |= (!script_.stragglers[rank] || random() % 32 == 0) && act(rank);
    }
    if (moved || world_.deliver_one() || anybody_acts()) continue;
    if (++waits > 10'000) return judge_.fault("time goes on, and nothing comes of it");
    if (!wait_for_time()) return;
  }
}

// --- What a rank does.

void RandomWorld::enter_phase(Rank rank) {
  Actor& actor = actors_[rank];
  actor.todo.clear();
  for (int call : script_.phases[actor.phase].calls) {
    const bool with_another = script_.calls[call].first_of_group >= 0;
    if (script_.calls[call].takes_part[rank] && !with_another) actor.todo.push_back(call);
  }
  std::ranges::shuffle(actor.todo, world_.random());
}

// False when there is nothing that it can do yet.
bool RandomWorld::act(Rank rank) {
  Actor& actor = actors_[rank];
  if (!world_.node(rank).failure().ok()) return std::erase(active_, rank) > 0;
  const bool last = actor.phase + 1 == script_.phases.size();
  if (last && script_.leaves_early[rank]) {
    depart(rank);
    return true;
  }
  std::erase_if(actor.todo, [&](int call) { return judge_.dropped(rank, call); });
  if (actor.todo.empty()) return leave_phase(rank);
  bool moved = false;
  for (unsigned burst = 1 + world_.random()() % 3; burst > 0 && submit_something(rank); --burst) moved = true;
  if (moved) world_.collect(rank);
  return moved;
}

bool RandomWorld::leave_phase(Rank rank) {
  Actor& actor = actors_[rank];
  const bool last = actor.phase + 1 == script_.phases.size();
  const bool waits = last ? script_.waits_to_depart : !script_.phases[actor.phase].overlaps;
  if (waits && !judge_.idle(rank)) return false;
  if (last) {
    depart(rank);
  } else {
    ++actor.phase;
    enter_phase(rank);
  }
  return true;
}

bool RandomWorld::may_submit(Rank rank, int index) const {
  const Call& call = script_.calls[index];
  auto in_flight = [&](const Request& each) { return judge_.in_flight(rank, call.set, each.name); };
  if (in_flight(call.request) || std::ranges::any_of(call.request.others, in_flight)) return false;
  // Calls of one name go in the order of the script, on every rank.
  const bool later = std::ranges::any_of(actors_[rank].todo, [&](int other) {
    const Call& same = script_.calls[other];
    return other < index && same.set == call.set && same.request.name == call.request.name;
  });
  if (later) return false;
  const bool waits = call.first != rank;
  if (waits && !std::ranges::all_of(call.after_done, [&](int other) { return judge_.over(rank, other); }))
    return false;
  return std::ranges::all_of(call.after_submitted, [&](int other) {
    const Call& before = script_.calls[other];
    const bool mine = before.takes_part[rank] && (before.first < 0 || before.first == rank);
    return !mine || judge_.state(rank, other) != PlanJudge::State::waits;
  });
}

bool RandomWorld::submit_something(Rank rank) {
  std::vector<int>& todo = actors_[rank].todo;
  const auto next = std::ranges::find_if(todo, [&](int call) { return may_submit(rank, call); });
  if (next == todo.end()) return false;
  const int call = *next;
  todo.erase(next);
  submit(rank, call);
  return true;
}

void RandomWorld::submit(Rank rank, int index) {
  const Call& call = script_.calls[index];
  Request request = call.odd == rank ? call.odd_request : call.request;
  request.process_set = judge_.id_of(call.set);
  if (request.operation == Operation::join) request.root = rank;
  if (request.operation == Operation::remove_process_set)
    request.root = static_cast<Rank>(judge_.id_of(call.other_set));
  for (Request& other : request.others) other.process_set = request.process_set;
  ++actions_;
  for (int each = index; each < script_.end_of_group(index); ++each) judge_.submitted(rank, each);
  world_.submit(rank, std::move(request));
}

void RandomWorld::depart(Rank rank) {
  ++actions_;
  std::erase(active_, rank);
  judge_.departed(rank);
  actors_[rank].departed = true;
  restless_.push_back(rank);
  world_.node(rank).depart(world_.now);
  world_.collect(rank);
}

// --- When nothing is under way.

bool RandomWorld::anybody_acts() {
  if (!witnesses_.empty()) {
    break_off(witnesses_.back());
    return true;
  }
  if (!failures_.empty()) {
    give_up_one();
    return true;
  }
  const std::vector<Rank> ranks = active_;
  const std::size_t start = ranks.empty() ? 0 : world_.random()() % ranks.size();
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (act(ranks[(start + i) % ranks.size()])) return true;
  }
  return false;
}

bool RandomWorld::wait_for_time() {
  std::optional<Time> next;
  for (Rank rank = 0; rank < script_.size; ++rank) {
    const Negotiator& node = world_.node(rank);
    if (node.ended() || !node.failure().ok() || (lost_ && rank == *script_.lost)) continue;
    if (const std::optional<Time> due = node.due()) next = next ? std::min(*next, *due) : *due;
  }
  if (!next) return false;
  world_.now = std::max(*next, world_.now + std::chrono::milliseconds(100));
  for (Rank rank = 0; rank < script_.size; ++rank) world_.collect(rank);
  return true;
}

// --- A rank is lost: its neighbours in the tree notice, each in its own time.

void RandomWorld::lose_one() {
  const Rank lost = *script_.lost;
  lost_ = true;
  loss_ = Status::peer_lost(fmt::format("rank {} is lost", lost));
  world_.silence(lost);
  std::erase(active_, lost);
  witnesses_ = tree_[lost].children;
  if (lost != 0) witnesses_.push_back(tree_[lost].parent);
  std::ranges::shuffle(witnesses_, world_.random());
}

void RandomWorld::break_off(Rank rank) {
  std::erase(witnesses_, rank);
  if (world_.node(rank).ended()) return;
  world_.node(rank).fail(loss_);
  world_.collect(rank);
}

void RandomWorld::check_survivors() {
  for (Rank rank = 0; rank < script_.size; ++rank) {
    const Negotiator& node = world_.node(rank);
    if (rank == *script_.lost || node.ended() || node.failure() == loss_) continue;
    judge_.fault(
        fmt::format("rank {} does not know that {}, but: '{}'", rank, loss_.message, node.failure().message));
  }
}

// --- The end.

void RandomWorld::check_end() {
  for (Rank rank = 0; rank < script_.size; ++rank) {
    const Negotiator& node = world_.node(rank);
    if (!node.failure().ok()) judge_.fault(fmt::format("rank {} failed: {}", rank, node.failure().message));
    if (!node.ended()) judge_.fault(fmt::format("rank {} has not ended", rank));
    if (node.busy()) judge_.fault(fmt::format("rank {} is busy after the end", rank));
  }
  judge_.finish();
}

// A message is at most what all Calls take together, each told once.
void RandomWorld::check_sizes() {
  if (!script_.regular || fault_ != nullptr) return;
  std::size_t most = 1024;
  for (const Call& call : script_.calls) {
    const RequestOfRanks asked{std::make_shared<const Request>(call.request), script_.sets[call.set]};
    most += 256 + encode(Report{0, {}, {{asked}}, {}, {}}).size();
  }
  if (world_.largest_message() > most)
    judge_.fault(fmt::format("a message of {} bytes, where {} are enough for all that is said",
                             world_.largest_message(), most));
}

}  // namespace rueda
