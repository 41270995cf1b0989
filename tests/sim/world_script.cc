// SPDX-License-Identifier: Apache-2.0
// The phases of a random world.
#include "tests/sim/world_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/operation_traits.h"
#include "tests/sim/world_author.h"

namespace rueda {
namespace {

constexpr Operation kOperations[] = {Operation::allreduce, Operation::allreduce, Operation::allreduce,
                                     Operation::allreduce, Operation::allgather, Operation::broadcast,
                                     Operation::alltoall,  Operation::barrier,   Operation::reducescatter,
                                     Operation::reduce,    Operation::gather,    Operation::scatter};

}  // namespace

// Operations of any set in any order; some of a group, some that ranks do not agree on.
void WorldAuthor::plain_phase(int except_set) {
  ScriptPhase& phase = script_.phases.back();
  phase.overlaps = once_in(2);
  for (unsigned i = 0; i < per_phase_; ++i) {
    const int set = some_set();
    if (set == except_set) continue;
    if (script_.size > 1 && once_in(8)) {
      message();
      continue;
    }
    if (once_in(10)) {
      group(set);
      continue;
    }
    const unsigned name = once_in(8) ? 1000 + unique_++ : below(names_);
    Call call = call_of(set, kOperations[name % std::size(kOperations)], fmt::format("t{}", name));
    if (once_in(12)) differ(call);
    for (unsigned fails = once_in(8) ? 1 + below(3) : 0; fails > 0; --fails)
      call.fails_on.push_back(member_of(set));
    add(std::move(call));
  }
}

// Of any two ranks; names come again, also in the other direction.
void WorldAuthor::message() {
  MessagePair pair{some_rank(), some_rank()};
  if (pair.source == pair.destination) pair.destination = (pair.source + 1) % script_.size;
  auto known = std::ranges::find(script_.pairs, pair, &std::pair<const int, MessagePair>::second);
  if (known == script_.pairs.end()) {
    known = script_.pairs.emplace(static_cast<int>(script_.sets.size()), pair).first;
    script_.sets.push_back(pair.members());
  }
  Call call = call_of(known->first, Operation::message, fmt::format("t{}", below(names_)));
  call.request.root = pair.source;
  if (once_in(12)) differ(call);
  if (once_in(8)) call.fails_on.push_back(member_of(known->first));
  add(std::move(call));
}

// Names come again, with other numbers of tensors.
void WorldAuthor::group(int set) {
  const unsigned size = 2 + below(3);
  const std::string name = fmt::format("group{}", below(3));
  Call first = call_of(set, Operation::allreduce, fmt::format("{}.0", name));
  std::vector<Call> others;
  for (unsigned i = 1; i < size; ++i) {
    Call& other = others.emplace_back(call_of(set, Operation::allreduce, fmt::format("{}.{}", name, i)));
    other.request.follows = first.request.name;
    other.first_of_group = static_cast<int>(script_.calls.size());
    first.request.others.push_back(other.request);
  }
  if (once_in(3)) differ_in_group(first);
  add(std::move(first));
  for (Call& other : others) add(std::move(other));
}

void WorldAuthor::differ_in_group(Call& first) {
  if (script_.sets[first.set].count() < 2) return;
  first.odd = member_of(first.set);
  first.odd_request = first.request;
  std::vector<Request>& others = first.odd_request.others;
  switch (below(3)) {
    case 0: others.pop_back(); break;
    case 1:
      others.push_back(others.back());
      others.back().name += "x";
      break;
    default: others[below(static_cast<unsigned>(others.size()))].shape.push_back(2);
  }
  first.outcomes = {StatusCode::mismatch};
  script_.regular = false;
}

// New sets, sets that are there already, sets that ranks do not agree on.
void WorldAuthor::sets_phase() {
  const std::vector<RankSet> before = script_.sets;
  std::vector<int> fresh;
  std::vector<RankSet> new_members;
  for (unsigned i = 0; i < 1 + below(3); ++i) {
    Call call = decision(0, Operation::add_process_set, "add");
    const int old = live_[below(static_cast<unsigned>(live_.size()))];
    const RankSet members = once_in(5) ? script_.sets[old] : some_members();
    call.request.members = members;
    const bool exists = std::ranges::any_of(live_, [&](int s) { return before[s] == members; });
    if (std::ranges::find(new_members, members) != new_members.end()) continue;
    new_members.push_back(members);
    if (exists) {
      call.outcomes = {StatusCode::invalid_argument};
    } else if (once_in(6) && script_.size > 1) {
      differ(call);
    } else {
      call.other_set = static_cast<int>(script_.sets.size());
      script_.sets.push_back(members);
      fresh.push_back(call.other_set);
    }
    add(std::move(call));
  }
  live_.insert(live_.end(), fresh.begin(), fresh.end());
}

void WorldAuthor::removal_phase() {
  if (live_.size() < 2) return;
  const auto chosen = live_.begin() + 1 + below(static_cast<unsigned>(live_.size()) - 1);
  const int set = *chosen;
  live_.erase(chosen);
  if (!plain_ && script_.sets[set].count() > 1 && !once_in(3)) return removal_in_flight(set);
  Call call = decision(0, Operation::remove_process_set, "remove");
  call.other_set = set;
  add(std::move(call));
}

// One member has something in flight. Rank 0 may know (the removal fails, the others submit it too, and the
// set is removed afterwards) or not (it is removed, and what was in flight ends with it).
void WorldAuthor::removal_in_flight(int set) {
  Call busy = call_of(set, Operation::allreduce, fmt::format("t{}", below(names_)));
  Call removal = decision(0, Operation::remove_process_set, "remove");
  removal.other_set = set;
  Call again = removal;
  again.request.name = fmt::format("remove{}", unique_++);
  busy.first = member_of(set);
  const int first = static_cast<int>(script_.calls.size()) + 1;
  busy.after_done = {first};
  busy.unless_ok = first;
  const int in_flight = add(std::move(busy));
  removal.outcomes = {StatusCode::ok, StatusCode::invalid_argument};
  removal.after_submitted = {in_flight};
  add(std::move(removal));
  again.after_done = {first, in_flight};
  again.unless_ok = first;
  add(std::move(again));
}

// Ranks with unequal numbers of batches.
void WorldAuthor::join_phase() {
  const int set = some_set();
  const bool waits = once_in(2);
  const unsigned most = 1 + below(4);
  std::vector<unsigned> batches(script_.size);
  const bool blocks = script_.size > 200 || once_in(2);
  for (Rank r = 0; r < script_.size; ++r)
    batches[r] = blocks && r % 16 != 0 ? batches[r - 1] : below(most + 1);
  Call join = decision(set, Operation::join, "join");
  unsigned largest = 0;
  for (Rank r = 0; r < script_.size; ++r) {
    if (join.takes_part[r]) largest = std::max(largest, batches[r]);
  }
  for (unsigned i = 0; i < largest; ++i) {
    Call call = call_of(set, Operation::allreduce, fmt::format("batch{}", i));
    for (Rank r = 0; r < script_.size; ++r) call.takes_part[r] = call.takes_part[r] && batches[r] > i;
    if (waits && i > 0) call.after_done = {join.after_submitted.back()};
    join.after_submitted.push_back(add(std::move(call)));
  }
  // Who waits for its batches and has the most joins after those who have fewer.
  join.last = join.takes_part;
  if (waits) {
    join.after_done = join.after_submitted;
    for (Rank r = 0; r < script_.size; ++r) join.last[r] = join.last[r] && batches[r] == largest;
  }
  add(std::move(join));
  forbidden_while_joined(set, batches);
  plain_phase(set);
  script_.phases.back().overlaps = false;
  script_.regular = false;
}

// An operation that ranks without batches do not submit, since they only join.
void WorldAuthor::forbidden_while_joined(int set, const std::vector<unsigned>& batches) {
  constexpr Operation kForbidden[] = {Operation::allgather, Operation::broadcast, Operation::alltoall,
                                      Operation::reducescatter, Operation::allreduce};
  const Operation operation = kForbidden[below(5)];
  Call call = call_of(set, operation, fmt::format("forbidden{}", unique_++));
  bool some = false, none = true;
  for (Rank r = 0; r < script_.size; ++r) {
    if (!call.takes_part[r]) continue;
    const bool here = batches[r] > 0;
    some |= !here;
    none &= !here;
    call.takes_part[r] = here;
  }
  if (!some || none) return;
  const bool root_joined = traits(operation).has_root && batches[call.request.root] == 0;
  if (operation == Operation::allreduce) {  // what stands in for a joined rank must not be scaled
    call.request.reduce_op = ReduceOp::min;
    call.request.prescale_factor = 2;
    call.outcomes = {StatusCode::invalid_argument};
  } else if (!script_.options.full_join || root_joined) {
    call.outcomes = {StatusCode::invalid_argument};
  }
  // Before the join of its ranks, which comes just before it in the script.
  script_.calls.back().after_submitted.push_back(static_cast<int>(script_.calls.size()));
  add(std::move(call));
}

// Some ranks have departed: what others want of their sets ends for that reason.
void WorldAuthor::last_phase() {
  if (script_.size < 2 || plain_ || once_in(2)) {
    plain_phase();
    script_.waits_to_depart = plain_ || once_in(2);
    return;
  }
  const unsigned leavers = 1 + below(std::min<unsigned>(script_.size, 20) - 1);
  for (unsigned i = 0; i < leavers; ++i) script_.leaves_early[some_rank()] = true;
  if (once_in(3)) {
    join_phase();
  } else {
    plain_phase();
  }
  for (int index : script_.phases.back().calls) {
    Call& call = script_.calls[index];
    for (Rank r = 0; r < script_.size; ++r) {
      if (!script_.leaves_early[r] || !script_.sets[call.set].contains(r)) continue;
      call.takes_part[r] = false;
      call.outcomes = {StatusCode::shut_down};
    }
  }
  script_.regular = false;
}

// Every rank wants something that nobody else wants, and departs.
void WorldAuthor::crossed_phase() {
  for (Rank r = 0; r < script_.size; ++r) {
    Call call = call_of(0, Operation::allreduce, fmt::format("only{}", r));
    call.takes_part.assign(script_.size, false);
    call.takes_part[r] = true;
    if (script_.size > 1) call.outcomes = {StatusCode::shut_down};
    add(std::move(call));
  }
  script_.regular = false;
  script_.waits_to_depart = false;
}

WorldScript WorldAuthor::write() {
  set_scene();
  const unsigned phases = script_.size > 200 ? 2 + below(2) : 3 + below(5);
  for (unsigned i = 0; i < phases; ++i) {
    script_.phases.emplace_back();
    switch (below(8)) {
      case 0:
      case 1: sets_phase(); break;
      case 2: removal_phase(); break;
      case 3: plain_ ? plain_phase() : join_phase(); break;
      default: plain_phase();
    }
  }
  script_.phases.emplace_back();
  if (!plain_ && script_.size <= 40 && once_in(6)) {
    crossed_phase();
  } else {
    last_phase();
  }
  if (!plain_ && once_in(8) && script_.size > 1) {
    script_.lost = some_rank();
    script_.lost_after = below(static_cast<unsigned>(script_.submissions()) + 1);
  }
  return std::move(script_);
}

int WorldScript::end_of_group(int first) const {
  int end = first + 1;
  while (end < static_cast<int>(calls.size()) && calls[end].first_of_group == first) ++end;
  return end;
}

std::size_t WorldScript::submissions() const {
  std::size_t count = 0;
  for (const Call& call : calls) count += std::ranges::count(call.takes_part, true);
  return count;
}

WorldScript make_script(std::uint32_t seed, Rank size, bool plain) {
  return WorldAuthor(seed, size, plain).write();
}

}  // namespace rueda
