// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/world_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace rueda {
namespace {

constexpr Operation kOperations[] = {Operation::allreduce, Operation::allreduce, Operation::allreduce,
                                     Operation::allreduce, Operation::allgather, Operation::broadcast,
                                     Operation::alltoall,  Operation::barrier,   Operation::reducescatter};

// Purpose: writes one script. Lives for one make_script.
class Author {
 public:
  Author(std::uint32_t seed, Rank size, bool plain) : random_(seed), plain_(plain) {
    script_.seed = seed;
    script_.size = size;
    script_.sets = {RankSet(0, size)};
    live_ = {0};
    script_.leaves_early.resize(size);
    script_.stragglers.resize(size);
  }

  WorldScript write();

 private:
  unsigned below(unsigned end) { return static_cast<unsigned>(random_() % end); }
  bool once_in(unsigned n) { return below(n) == 0; }
  Rank some_rank() { return static_cast<Rank>(below(script_.size)); }
  Rank member_of(int set) {
    return script_.sets[set].at(static_cast<Rank>(below(script_.sets[set].count())));
  }
  int some_set() { return once_in(2) ? 0 : live_[below(static_cast<unsigned>(live_.size()))]; }
  std::vector<bool> members(int set) const;
  RankSet some_members();

  int add(Call call) {
    script_.calls.push_back(std::move(call));
    script_.phases.back().calls.push_back(static_cast<int>(script_.calls.size()) - 1);
    return static_cast<int>(script_.calls.size()) - 1;
  }
  Call call_of(int set, Operation operation, std::string name);
  Request wish(Operation operation, std::string name);
  Call decision(int set, Operation operation, std::string_view name);
  void differ(Call& call);

  void set_scene();
  void plain_phase(int except_set = -1);
  void group(int set, bool complete);
  void sets_phase();
  void removal_phase();
  void removal_in_flight(int set);
  void join_phase();
  void forbidden_while_joined(int set, const std::vector<unsigned>& batches);
  void last_phase();
  void crossed_phase();

  std::mt19937 random_;
  const bool plain_;
  WorldScript script_;
  std::vector<int> live_;  // sets
  unsigned per_phase_ = 8;
  unsigned names_ = 10;
  unsigned changes_ = 8;  // once in so many a name means something else
  unsigned unique_ = 0;   // numbers for names that do not come again
};

std::vector<bool> Author::members(int set) const {
  std::vector<bool> result(script_.size);
  const RankSet& ranks = script_.sets[set];
  for (Rank i = 0; i < ranks.count(); ++i) result[ranks.at(i)] = true;
  return result;
}

// A range, every so many ranks, one rank, or any.
RankSet Author::some_members() {
  RankSet ranks;
  const Rank size = script_.size, first = some_rank();
  switch (below(4)) {
    case 0: ranks.add(first, first + 1 + static_cast<Rank>(below(size - first))); break;
    case 1:
      for (Rank stride = 2 + static_cast<Rank>(below(5)), r = first % stride; r < size; r += stride)
        ranks.add(r, r + 1);
      break;
    case 2: ranks.add(first, first + 1); break;
    default:
      ranks.add(first, first + 1);
      for (Rank i = 0; i < std::min(size, 60); ++i) {
        const Rank r = some_rank();
        if (once_in(2)) ranks.add(r, r + 1);
      }
  }
  return ranks;
}

// Fields by the name, so that a name means the same each time unless it is changed on purpose.
Request Author::wish(Operation operation, std::string name) {
  Request request;
  request.name = std::move(name);
  request.operation = operation;
  request.shape = {static_cast<std::int64_t>(1 + request.name.size() % 3), 4};
  if (once_in(changes_)) request.shape.back() = 1 + below(4);
  if (operation == Operation::barrier) request.shape = {0};
  if (traits(operation).reduces && request.name.size() % 2 == 0) request.dtype = DataType::int32;
  return request;
}

Call Author::call_of(int set, Operation operation, std::string name) {
  Call call;
  call.set = set;
  call.request = wish(operation, std::move(name));
  if (traits(operation).has_root) call.request.root = script_.sets[set].at(0);
  call.takes_part = members(set);
  call.outcomes = {StatusCode::ok};
  return call;
}

// What moves no data; its name does not come again.
Call Author::decision(int set, Operation operation, std::string_view name) {
  Call call = call_of(set, operation, fmt::format("{}{}", name, unique_++));
  call.request.dtype = DataType::uint8;
  call.request.shape = {0};
  return call;
}

// One rank wants something else.
void Author::differ(Call& call) {
  if (script_.sets[call.set].count() < 2) return;
  call.odd = member_of(call.set);
  call.odd_request = call.request;
  switch (below(3)) {
    case 0: call.odd_request.shape.push_back(2); break;
    case 1: call.odd_request.dtype = DataType::float64; break;
    default: call.odd_request.postscale_factor = 0.5;
  }
  if (call.request.operation == Operation::add_process_set) {
    call.odd_request = call.request;
    call.odd_request.members = call.request.members == RankSet(0, 1) ? RankSet(0, 2) : RankSet(0, 1);
  }
  call.outcomes = {StatusCode::mismatch};
  script_.regular = false;
}

void Author::set_scene() {
  ControlWorld::Options& options = script_.options;
  const auto largest_host = 1 + below(std::min<unsigned>(script_.size, once_in(2) ? 4 : 24));
  int host = 0;
  while (options.hosts.size() < static_cast<std::size_t>(script_.size)) {
    const std::size_t end = options.hosts.size() + 1 + below(largest_host);
    options.hosts.resize(std::min<std::size_t>(end, script_.size), fmt::format("host{}", host++));
  }
  if (once_in(4)) std::ranges::shuffle(options.hosts, random_);
  options.radix = 2 + static_cast<Rank>(once_in(2) ? below(3) : below(31));
  options.linger = std::chrono::microseconds(once_in(2) ? 0 : 1000);
  options.fusion_threshold = once_in(3) ? 0 : once_in(2) ? 256 : 1 << 20;
  constexpr std::int64_t kCacheLeast[] = {0, 1, 1, 2, 4, 1024};
  options.cache_least = kCacheLeast[below(6)];
  options.full_join = once_in(4);
  options.together = 1 + below(4);
  if (once_in(8)) options.stall_report = std::chrono::milliseconds(200);
  script_.regular = options.stall_report == Duration{};
  script_.step = std::chrono::microseconds(options.stall_report > Duration{} ? 10000 : below(3) * 100);
  script_.actions_in_8 = 1 + below(7);
  if (once_in(2)) {
    for (unsigned i = 0; i < 1u + below(3); ++i) script_.stragglers[some_rank()] = true;
  }
  const bool large = script_.size > 200;
  per_phase_ = large ? 4 + below(4) : 4 + below(12);
  names_ = per_phase_ + below(2 * per_phase_);
  changes_ = once_in(3) ? 2 : 20;
}

// Operations of any set in any order; some of a group, some that ranks do not agree on.
void Author::plain_phase(int except_set) {
  Phase& phase = script_.phases.back();
  phase.overlaps = once_in(2);
  for (unsigned i = 0; i < per_phase_; ++i) {
    const int set = some_set();
    if (set == except_set) continue;
    if (once_in(10)) {
      group(set, true);
      continue;
    }
    const unsigned name = once_in(8) ? 1000 + unique_++ : below(names_);
    Call call = call_of(set, kOperations[name % std::size(kOperations)], fmt::format("t{}", name));
    if (once_in(12)) differ(call);
    add(std::move(call));
  }
}

void Author::group(int set, bool complete) {
  const unsigned size = 2 + below(3);
  const std::string name = fmt::format("group{}", unique_++);
  const bool bad = complete && once_in(3) && script_.sets[set].count() > 1;
  const unsigned bad_one = below(size);
  for (unsigned i = 0; i < size - (complete ? 0 : 1); ++i) {
    Call call = call_of(set, Operation::allreduce, fmt::format("{}.{}", name, i));
    call.request.group = name;
    call.request.group_size = size;
    if (bad && i == bad_one) differ(call);
    if (bad) call.outcomes = {StatusCode::mismatch};
    if (!complete) call.outcomes = {StatusCode::shut_down};
    add(std::move(call));
  }
}

// New sets, sets that are there already, sets that ranks do not agree on.
void Author::sets_phase() {
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

void Author::removal_phase() {
  if (live_.size() < 2) return;
  const auto place = live_.begin() + 1 + below(static_cast<unsigned>(live_.size()) - 1);
  const int set = *place;
  live_.erase(place);
  if (!plain_ && script_.sets[set].count() > 1 && once_in(2)) return removal_in_flight(set);
  Call call = decision(0, Operation::remove_process_set, "remove");
  call.other_set = set;
  add(std::move(call));
}

// One member has something in flight. Rank 0 may know (the removal fails, the others submit it too, and the
// set is removed afterwards) or not (it is removed, and what was in flight ends with it).
void Author::removal_in_flight(int set) {
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
void Author::join_phase() {
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
void Author::forbidden_while_joined(int set, const std::vector<unsigned>& batches) {
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
void Author::last_phase() {
  if (script_.size < 2 || plain_ || once_in(2)) {
    plain_phase();
    script_.waits_to_depart = plain_ || once_in(2);
    if (!script_.waits_to_depart && once_in(2)) group(some_set(), false);
    return;
  }
  const unsigned leavers = 1 + below(std::min<unsigned>(script_.size, 20) - 1);
  for (unsigned i = 0; i < leavers; ++i) script_.leaves_early[some_rank()] = true;
  plain_phase();
  for (int index : script_.phases.back().calls) {
    Call& call = script_.calls[index];
    for (Rank r = 0; r < script_.size; ++r) {
      if (!call.takes_part[r] || !script_.leaves_early[r]) continue;
      call.takes_part[r] = false;
      call.outcomes = {StatusCode::shut_down};
    }
  }
  script_.regular = false;
}

// Every rank wants something that nobody else wants, and departs.
void Author::crossed_phase() {
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

WorldScript Author::write() {
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

}  // namespace

std::size_t WorldScript::submissions() const {
  std::size_t count = 0;
  for (const Call& call : calls) count += std::ranges::count(call.takes_part, true);
  return count;
}

WorldScript make_script(std::uint32_t seed, Rank size, bool plain) {
  return Author(seed, size, plain).write();
}

}  // namespace rueda
