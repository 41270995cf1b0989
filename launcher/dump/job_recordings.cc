// SPDX-License-Identifier: Apache-2.0
#include "launcher/dump/job_recordings.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "core/control/messages/message_pair.h"

namespace rueda {
namespace {

// A name, and the number of its job: the last one counts.
using RuntimeKey = std::pair<std::string, std::uint64_t>;

// The recording of one rank of a Runtime, and the clock of its host.
struct Page {
  const RecordedRuntime* runtime = nullptr;
  std::int64_t to_unix_ns = 0;  // added to times of the recording
};

// All ranks of one Runtime.
struct Members {
  std::map<Rank, Page> pages;      // by rank of the job
  std::vector<Rank> ranks_of_job;  // by rank of the Runtime
};

Rank rank_of_job(const Members& members, Rank rank) {
  const auto index = static_cast<std::size_t>(rank);
  return rank >= 0 && index < members.ranks_of_job.size() ? members.ranks_of_job[index] : rank;
}

// Ranks of an elastic job have other numbers than their processes. What the processes say of themselves
// counts most.
void find_ranks_of_job(Members& members, Rank most) {
  Rank size = 0;
  for (const auto& [rank, page] : members.pages)
    size = std::max({size, page.runtime->recording.size, std::min(page.runtime->recording.rank, most - 1) + 1,
                     static_cast<Rank>(page.runtime->ranks.size())});
  members.ranks_of_job.resize(static_cast<std::size_t>(std::min(size, most)));
  std::iota(members.ranks_of_job.begin(), members.ranks_of_job.end(), 0);
  for (const auto& [rank, page] : members.pages)
    std::copy_n(page.runtime->ranks.begin(),
                std::min(page.runtime->ranks.size(), members.ranks_of_job.size()),
                members.ranks_of_job.begin());
  for (const auto& [rank, page] : members.pages) {
    const auto own = static_cast<std::size_t>(page.runtime->recording.rank);
    if (page.runtime->recording.size > 0 && own < members.ranks_of_job.size())
      members.ranks_of_job[own] = rank;
  }
}

// The numbers of a recording may be any.
std::int64_t sum(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

std::int64_t difference(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}

std::map<RuntimeKey, Members> runtimes_of(const std::map<Rank, RankRecording>& recordings, Rank most) {
  std::map<RuntimeKey, Members> runtimes;
  for (const auto& [rank, recording] : recordings) {
    for (const RecordedRuntime& runtime : recording.runtimes) {
      if (runtime.recording.size == 0) continue;  // it has not begun
      runtimes[{runtime.name, runtime.recording.job}].pages[rank] = {
          &runtime, difference(recording.unix_ns, recording.monotonic_ns)};
    }
  }
  for (auto& [key, members] : runtimes) find_ranks_of_job(members, most);
  return runtimes;
}

// Both directions of two ranks' messages belong to one group.
ProcessSetId group_id(ProcessSetId id) {
  const std::optional<MessagePair> pair = MessagePair::of(id);
  if (!pair) return id;
  return MessagePair{std::min(pair->source, pair->destination), std::max(pair->source, pair->destination)}
      .id();
}

// As the Runtime numbers them. A set that no rank has recorded: all that have used it.
std::vector<Rank> members_of_set(const Members& members, ProcessSetId id) {
  if (const std::optional<MessagePair> pair = MessagePair::of(id)) return {pair->source, pair->destination};
  if (id == kWorld) {
    std::vector<Rank> all(members.ranks_of_job.size());
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  RankSet seen;
  for (const auto& [rank, page] : members.pages) {
    const Recording& recording = page.runtime->recording;
    const auto set = std::ranges::find(recording.sets, id, &RecordedSet::id);
    if (set != recording.sets.end() && !set->members.empty()) return set->members;
    for (const auto* operations : {&recording.ended, &recording.in_flight})
      if (std::ranges::find(*operations, id, &RecordedOperation::process_set) != operations->end())
        seen.add(RankSet::of(recording.rank));
  }
  std::vector<Rank> list;
  for (const auto& [first, end] : seen.ranges())
    for (Rank rank = first; rank < end; ++rank) list.push_back(rank);
  return list;
}

std::string name_of_group(const std::string& runtime, ProcessSetId id, const std::vector<Rank>& ranks) {
  if (MessagePair::of(id)) return fmt::format("messages of ranks {} and {}", ranks.front(), ranks.back());
  if (id == kWorld) return runtime.empty() ? "all ranks" : runtime;
  return fmt::format("{}process set {}", runtime.empty() ? "" : runtime + ", ", id);
}

// Operations of one rank under one name and in one Plan are numbered.
using OperationKey = std::tuple<std::uint64_t, std::string, int>;
using Operations = std::map<OperationKey, JobOperation>;

void add(Operations& operations, Rank rank, RecordedOperation operation, std::int64_t to_unix_ns) {
  for (std::int64_t* time : {&operation.submitted_ns, &operation.started_ns, &operation.ended_ns})
    if (*time != 0) *time = sum(*time, to_unix_ns);
  OperationKey key{operation.plan, operation.name, 0};
  while (operations.contains(key) && operations.at(key).on.contains(rank)) ++std::get<2>(key);
  JobOperation& whole = operations[key];
  whole.plan = operation.plan;
  whole.name = operation.name;
  whole.on.emplace(rank, std::move(operation));
}

// Plans come in order, so a rank that does not know one knows no later one either.
std::map<Rank, std::uint64_t> last_plans(const Operations& operations) {
  std::map<Rank, std::uint64_t> last;
  for (const auto& [key, operation] : operations)
    for (const auto& [rank, each] : operation.on) last[rank] = std::max(last[rank], operation.plan);
  return last;
}

// A rank that has not heard of the Plan has the operation without one.
void join_unplanned(Operations& operations) {
  const std::map<Rank, std::uint64_t> last = last_plans(operations);
  const auto first_planned = operations.lower_bound({1, "", 0});
  for (auto unplanned = operations.begin(); unplanned != first_planned;) {
    JobOperation& whole = unplanned->second;
    for (auto planned = first_planned; planned != operations.end(); ++planned) {
      if (planned->second.name != whole.name) continue;
      std::erase_if(whole.on, [&](const auto& each) {
        const bool belongs = last.at(each.first) < planned->second.plan;
        return belongs && planned->second.on.insert(each).second;
      });
    }
    unplanned = whole.on.empty() ? operations.erase(unplanned) : std::next(unplanned);
  }
}

std::int64_t first_submission(const JobOperation& operation) {
  std::int64_t first = 0;
  for (const auto& [rank, each] : operation.on)
    first = first == 0 ? each.submitted_ns : std::min(first, each.submitted_ns);
  return first;
}

// Whether the rank had joined when the operation was called.
bool had_joined(const Recording& recording, ProcessSetId id, std::uint64_t plan) {
  return std::ranges::any_of(
      std::initializer_list<const std::vector<RecordedOperation>*>{&recording.ended, &recording.in_flight},
      [&](const auto* operations) {
        return std::ranges::any_of(*operations, [&](const RecordedOperation& each) {
          return each.operation == Operation::join && each.process_set == id &&
                 (each.plan == 0 || plan == 0 || each.plan > plan);
        });
      });
}

void sort_members(JobOperation& operation, const JobGroup& group, ProcessSetId id, const Members& members) {
  for (const Rank rank : group.ranks) {
    if (operation.on.contains(rank)) continue;
    const auto page = members.pages.find(rank);
    const Recording* recording = page == members.pages.end() ? nullptr : &page->second.runtime->recording;
    RankSet* kind = &operation.missing;
    if (recording == nullptr)
      kind = &operation.absent;
    else if (operation.plan != 0 && operation.plan <= recording->forgotten_plan)
      kind = &operation.forgotten;
    else if (had_joined(*recording, id, operation.plan))
      kind = &operation.joined;
    else if (recording->unrecorded > 0)
      kind = &operation.forgotten;
    kind->add(RankSet::of(rank));
  }
}

// Some have dropped the recording of a job that has ended, so that nobody can tell any more.
bool is_over(const Members& members) {
  const bool all = members.pages.size() == members.ranks_of_job.size();
  return !all && std::ranges::any_of(members.pages, [](const auto& each) {
    return each.second.runtime->recording.ended_in_order;
  });
}

JobGroup make_group(const std::string& runtime, ProcessSetId id, const Members& members,
                    Operations operations) {
  JobGroup group;
  for (const Rank rank : members_of_set(members, id)) group.ranks.push_back(rank_of_job(members, rank));
  if (MessagePair::of(id)) std::ranges::sort(group.ranks);
  group.name = name_of_group(runtime, id, group.ranks);
  join_unplanned(operations);
  for (auto& [its_key, operation] : operations) {
    sort_members(operation, group, id, members);
    group.operations.push_back(std::move(operation));
  }
  const auto planned = std::ranges::stable_partition(group.operations,
                                                     [](const JobOperation& each) { return each.plan != 0; });
  std::ranges::stable_sort(planned, {}, &first_submission);
  return group;
}

}  // namespace

std::vector<JobGroup> job_groups(const std::map<Rank, RankRecording>& recordings, std::size_t most) {
  std::vector<JobGroup> groups;
  const std::map<RuntimeKey, Members> runtimes =
      runtimes_of(recordings, static_cast<Rank>(std::clamp<std::size_t>(most, 1, kMostRanksOfJob)));
  for (auto runtime = runtimes.begin(); runtime != runtimes.end(); ++runtime) {
    const auto& [key, members] = *runtime;
    const auto next = std::next(runtime);
    const bool is_followed = next != runtimes.end() && next->first.first == key.first;
    if (is_followed || is_over(members)) continue;
    std::map<ProcessSetId, Operations> sets;
    sets[kWorld];
    for (const auto& [rank, page] : members.pages) {
      const Recording& recording = page.runtime->recording;
      for (const auto* operations : {&recording.ended, &recording.in_flight})
        for (const RecordedOperation& each : *operations)
          add(sets[group_id(each.process_set)], rank, each, page.to_unix_ns);
    }
    for (auto& [id, operations] : sets)
      groups.push_back(make_group(key.first, id, members, std::move(operations)));
  }
  return groups;
}

RankSet set_of(const std::vector<Rank>& ranks) {
  RankSet set;
  for (const Rank rank : ranks) set.add(RankSet::of(rank));
  return set;
}

}  // namespace rueda
