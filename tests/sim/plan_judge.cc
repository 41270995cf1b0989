// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/plan_judge.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/operation_traits.h"

namespace rueda {

PlanJudge::PlanJudge(const WorldScript& script)
    : script_(script),
      states_(script.size, std::vector<State>(script.calls.size())),
      in_flight_(script.size),
      joined_(script.size),
      departed_(script.size),
      seen_(script.size),
      under_way_(script.size),
      ends_(script.calls.size()),
      ended_well_(script.calls.size()),
      ids_{{0, kWorld}},
      sets_{{kWorld, 0}} {
  for (const auto& [set, pair] : script.pairs) {
    ids_[set] = pair.id();
    sets_[pair.id()] = set;
  }
  for (int i = 0; i < static_cast<int>(script.calls.size()); ++i) {
    const Call& call = script.calls[i];
    if (std::ranges::find(call.takes_part, true) == call.takes_part.end()) continue;
    calls_[{call.set, call.request.name}].push_back(i);
  }
}

void PlanJudge::fault(std::string words) { faults_.push_back(std::move(words)); }

void PlanJudge::submitted(Rank rank, int index) {
  const Call& call = script_.calls[index];
  states_[rank][index] = State::submitted;
  in_flight_[rank][{call.set, call.request.name}] = index;
  if (call.request.operation == Operation::join) joined_[rank][call.set] = index;
}

bool PlanJudge::dropped(Rank rank, int index) const {
  const int other = script_.calls[index].unless_ok;
  return other >= 0 && states_[rank][other] == State::done && ended_well_[other];
}

bool PlanJudge::over(Rank rank, int index) const {
  return !script_.calls[index].takes_part[rank] || states_[rank][index] == State::done ||
         dropped(rank, index);
}

void PlanJudge::arrived(Rank rank, const Plan& plan) {
  const std::size_t index = seen_[rank]++;
  if (plan.number != index + 1)
    return fault(fmt::format("rank {} got Plan {} where Plan {} is due", rank, plan.number, index + 1));
  if (index == verdicts_.size()) {
    judge(plan);
  } else if (plan != verdicts_[index].plan) {
    return fault(fmt::format("rank {} got another Plan {} than the rank that got it first", rank, index + 1));
  }
  under_way_[rank].insert(plan.number);
}

std::set<Rank> PlanJudge::failing(std::uint64_t plan) const {
  std::set<Rank> ranks;
  const Verdict& verdict = verdicts_[plan - 1];
  for (int call : verdict.calls) {
    const std::vector<Rank>& fails_on = script_.calls[call].fails_on;
    if (verdict.plan.status.ok()) ranks.insert(fails_on.begin(), fails_on.end());
  }
  return ranks;
}

Status PlanJudge::words_of(std::uint64_t plan, Rank rank) {
  return Status::backend_error(fmt::format("Plan {} failed on rank {}", plan, rank));
}

void PlanJudge::finished(Rank rank, std::uint64_t plan) {
  if (under_way_[rank].erase(plan) == 0) return;
  for (int call : verdicts_[plan - 1].calls) complete(rank, verdicts_[plan - 1].plan, call);
}

bool PlanJudge::told(Rank rank, std::uint64_t plan) const { return verdicts_[plan - 1].told.contains(rank); }

// Everybody is told once, what one of the failing ranks has said, and all the same.
void PlanJudge::aborted(Rank rank, const Abort& abort) {
  if (abort.plan == 0 || abort.plan > seen_[rank])
    return fault(fmt::format("rank {} is told that Plan {} failed, which has not come", rank, abort.plan));
  Verdict& verdict = verdicts_[abort.plan - 1];
  const std::set<Rank> ranks = failing(abort.plan);
  if (std::ranges::none_of(ranks, [&](Rank each) { return words_of(abort.plan, each) == abort.status; }))
    fault(fmt::format("rank {} is told what nobody has said: {}", rank, abort.status.message));
  if (!verdict.aborted) verdict.aborted = abort.status;
  if (*verdict.aborted != abort.status)
    fault(fmt::format("rank {} is told '{}', others '{}'", rank, abort.status.message,
                      verdict.aborted->message));
  if (!verdict.told.insert(rank).second)
    fault(fmt::format("rank {} is told twice: {}", rank, abort.status.message));
  finished(rank, abort.plan);
}

void PlanJudge::judge(const Plan& plan) {
  Verdict& verdict = verdicts_.emplace_back();
  verdict.plan = plan;
  judge_ids(plan);
  for (const PlanTensor& tensor : plan.tensors) {
    const int index = call_of(plan, tensor);
    if (index < 0) return;
    verdict.calls.push_back(index);
    judge_call(plan, tensor, index);
    judge_readiness(plan, index);
    judge_sets(plan, index);
    ++ends_[index];
    ended_well_[index] = plan.status.ok();
    if (plan.status.ok()) continue;
    for (int other = index + 1; other < script_.end_of_group(index); ++other)  // ends with it
      ++called_[{script_.calls[other].set, script_.calls[other].request.name}];
  }
}

// The next Call of that name.
int PlanJudge::call_of(const Plan& plan, const PlanTensor& tensor) {
  const auto set = sets_.find(plan.process_set);
  if (set != sets_.end()) {
    const Name name{set->second, tensor.name()};
    std::size_t& called = called_[name];
    if (const auto calls = calls_.find(name); calls != calls_.end() && called < calls->second.size())
      return calls->second[called++];
  }
  fault(fmt::format("Plan {} is of {}, which no rank has to submit (again)", plan.number,
                    title(*tensor.request)));
  return -1;
}

void PlanJudge::judge_call(const Plan& plan, const PlanTensor& tensor, int index) {
  const Call& call = script_.calls[index];
  const Request& got = *tensor.request;
  if (std::ranges::find(call.outcomes, plan.status.code) == call.outcomes.end())
    fault(fmt::format("Plan {}: {} ended with {} where {} is due: {}", plan.number, title(got),
                      to_string(plan.status.code), to_string(call.outcomes.front()), plan.status.message));
  if (!plan.members || *plan.members != script_.sets[call.set])
    fault(fmt::format("Plan {}: {} has the wrong members", plan.number, title(got)));
  if (!plan.status.ok()) return;
  Request due = call.request;
  if (due.operation == Operation::remove_process_set) due.root = static_cast<Rank>(id_of(call.other_set));
  if (!compatible(got, due)) {
    const Difference other = difference(got, due);
    fault(fmt::format("Plan {}: {} has {} {} where {} is due", plan.number, title(got), other.field,
                      other.first, other.second));
  }
  if (plan.operation != traits(due.operation).carried_out_as || plan.dtype != due.dtype ||
      plan.reduce_op != due.reduce_op || plan.prescale_factor != due.prescale_factor ||
      plan.postscale_factor != due.postscale_factor || plan.reduction_order != due.reduction_order ||
      plan.compression != due.compression || plan.compression_share != due.compression_share ||
      plan.measure != due.measure) {
    fault(fmt::format("Plan {} does something else than {}", plan.number, title(got)));
  }
}

// Nothing starts early: every member has submitted it, or has joined, or has departed (and it fails); and a
// measured Plan says who has joined.
void PlanJudge::judge_readiness(const Plan& plan, int index) {
  const Call& call = script_.calls[index];
  const RankSet& members = script_.sets[call.set];
  RankSet without;
  for (Rank i = 0, count = members.count(); i < count; ++i) {
    const Rank rank = members.at(i);
    if (states_[rank][index] != State::waits) continue;
    without.add(rank, rank + 1);
    if (!call.takes_part[rank] && joined_[rank].contains(call.set)) continue;
    if (departed_[rank] && !plan.status.ok()) continue;
    return fault(fmt::format("Plan {}: {} came early: rank {} has not submitted it", plan.number,
                             title(call.request), rank));
  }
  if (plan.status.ok() && plan.measure && plan.joined != without) {
    fault(fmt::format("Plan {}: {} is of all but {}, not but {}", plan.number, title(call.request),
                      to_string(without), to_string(plan.joined)));
  }
}

// An id is given once, in full, stands for one request until it ends, and never comes again.
void PlanJudge::judge_ids(const Plan& plan) {
  for (const PlanTensor& tensor : plan.tensors) {
    if (tensor.id == 0) continue;
    const auto known = given_.find(tensor.id);
    if (tensor.in_full) {
      if (known != given_.end())
        fault(fmt::format("Plan {} gives id {} to {}; it was {}'s", plan.number, tensor.id,
                          title(*tensor.request), title(*known->second.request)));
      given_[tensor.id] = {tensor.request, false};
    } else if (known == given_.end() || known->second.ended) {
      fault(fmt::format("Plan {} uses id {}, which is not in use", plan.number, tensor.id));
    } else if (key_of(*known->second.request) != key_of(*tensor.request) ||
               !compatible(*known->second.request, *tensor.request)) {
      fault(fmt::format("Plan {}: id {} stands for {}, not for {}", plan.number, tensor.id,
                        title(*known->second.request), title(*tensor.request)));
    }
  }
  for (CacheId id : plan.evicted) {
    const auto known = given_.find(id);
    const bool own = std::ranges::any_of(plan.tensors, [&](const PlanTensor& each) { return each.id == id; });
    if (known == given_.end() || known->second.ended || own)
      fault(fmt::format("Plan {} ends id {}, which is not in use or its own", plan.number, id));
    if (known != given_.end()) known->second.ended = true;
  }
}

void PlanJudge::judge_sets(const Plan& plan, int index) {
  const Call& call = script_.calls[index];
  if (!plan.status.ok()) return;
  if (plan.operation == Operation::add_process_set) {
    if (plan.result != ++last_set_)
      fault(fmt::format("the new process set is {} where {} is due", plan.result, last_set_));
    ids_[call.other_set] = last_set_;
    sets_[last_set_] = call.other_set;
  }
  const bool joins = plan.operation == Operation::join;
  if (joins && (plan.result < 0 || plan.result >= script_.size || !call.last[plan.result]))
    fault(fmt::format("rank {} was not the last to join", plan.result));
}

void PlanJudge::complete(Rank rank, const Plan& plan, int index) {
  const Call& call = script_.calls[index];
  if (!plan.status.ok()) {
    for (int other = index + 1; other < script_.end_of_group(index); ++other) complete_one(rank, other);
  }
  complete_one(rank, index);
  if (call.request.operation == Operation::join) joined_[rank].erase(call.set);
  if (plan.operation != Operation::remove_process_set || !plan.status.ok()) return;
  // What was in flight of the set ends with it, without a Plan; what a Plan has called goes on.
  auto& mine = in_flight_[rank];
  for (auto each = mine.begin(); each != mine.end();) {
    if (each->first.first != call.other_set || called(rank, each->second)) {
      ++each;
      continue;
    }
    if (script_.calls[each->second].unless_ok != index)
      fault(fmt::format("rank {}: '{}' was lost with its process set", rank, each->first.second));
    states_[rank][each->second] = State::done;
    each = mine.erase(each);
  }
}

void PlanJudge::complete_one(Rank rank, int index) {
  const Call& call = script_.calls[index];
  State& state = states_[rank][index];
  if (state == State::done) fault(fmt::format("rank {}: {} ended twice", rank, title(call.request)));
  if (state != State::submitted) return;
  state = State::done;
  in_flight_[rank].erase({call.set, call.request.name});
}

// Whether a Plan of that Call is under way on the rank.
bool PlanJudge::called(Rank rank, int index) const {
  return std::ranges::any_of(under_way_[rank], [&](std::uint64_t plan) {
    return std::ranges::find(verdicts_[plan - 1].calls, index) != verdicts_[plan - 1].calls.end();
  });
}

void PlanJudge::finish() {
  for (Rank rank = 0; rank < script_.size; ++rank) {
    if (seen_[rank] != verdicts_.size())
      fault(fmt::format("rank {} got {} Plans of {}", rank, seen_[rank], verdicts_.size()));
    if (!under_way_[rank].empty())
      fault(
          fmt::format("rank {} still waits to be told that Plan {} failed", rank, *under_way_[rank].begin()));
    for (const auto& [name, call] : in_flight_[rank])
      fault(fmt::format("rank {} still waits for '{}' of set {}", rank, name.second, name.first));
  }
  for (const Verdict& verdict : verdicts_) {
    const std::size_t due = failing(verdict.plan.number).empty() ? 0 : seen_.size();
    if (verdict.told.size() != due)
      fault(fmt::format("{} ranks of {} were told that Plan {} failed", verdict.told.size(), due,
                        verdict.plan.number));
  }
  for (const auto& [name, calls] : calls_) {
    for (int index : calls) {
      const int other = script_.calls[index].unless_ok, first = script_.calls[index].first_of_group;
      const bool without = (other >= 0 && ended_well_[other]) || (first >= 0 && !ended_well_[first]);
      if (ends_[index] != (without ? 0 : 1))
        fault(fmt::format("{} has {} Plans", title(script_.calls[index].request), ends_[index]));
    }
  }
}

}  // namespace rueda
