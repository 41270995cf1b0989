// SPDX-License-Identifier: Apache-2.0
// Ranks in one thread that carry out Plans in shared memory, in any interleaving of their steps.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "core/control/messages/control_message.h"
#include "ops/shm/local_peers.h"
#include "ops/shm/one_shot.h"
#include "ops/shm/staged_allreduce.h"
#include "ops/shm/staged_exchange.h"
#include "ops/shm/store_policy.h"

namespace rueda::shm_job {

// With `mixed` each Plan is of one of the others.
enum class Kind { one_shot, staged, exchange, in_place, mixed };
inline constexpr Kind kKinds[] = {Kind::one_shot, Kind::staged, Kind::exchange, Kind::in_place, Kind::mixed};
inline std::string name_of(const testing::TestParamInfo<Kind>& info) {
  constexpr const char* kNames[] = {"OneShot", "Staged", "Exchange", "InPlace", "Mixed"};
  return kNames[static_cast<int>(info.param)];
}

constexpr std::int64_t kElements = 160;
// Elements of the first tensor; the others are the second's, which begins at a line of cache in every second
// Plan.
inline std::int64_t first_of(const Plan& plan) { return plan.number % 2 == 0 ? 96 : 100; }
constexpr std::size_t kSlots = 2;
constexpr std::size_t kInFlight = 4;  // so that several Works may want one slot

// One rank: its Works in the order of Plans, and whether it sleeps.
struct Simulated {
  struct Running {
    Kind kind = Kind::mixed;
    Plan plan;
    std::vector<std::int32_t> values;    // of all tensors; with in_place the inputs of some
    std::int32_t* result = nullptr;      // where they are after the operation
    std::vector<std::int32_t> expected;  // of the result
    std::vector<Entry> entries;
    std::unique_ptr<Work> work;
    std::size_t gives_up_after = 0;  // steps; 0: never
    std::size_t moves = 0;           // steps that did something
    bool seen = false;               // by a test, for its own use
  };

  Rank rank;
  std::unique_ptr<LocalPeers> local_peers;
  std::function<void(Running&)> before_step;  // of each Work, if any
  std::shared_ptr<std::byte> in_window;       // room for the tensors of all Plans that go in place
  std::vector<std::uint64_t> given_up;        // of these Plans
  LastUse last_use[kSlots];
  LastUse last_area_use[kAreas];
  StorePolicies stores;
  std::size_t next = 0;  // of all Plans
  std::list<Running> running;
  bool asleep = false;
  std::uint32_t heard = 0;
};

// Lets it find that storing past the cache is quicker.
inline void let_stream(StorePolicy& stores) {
  while (!stores.streams()) stores.took(false, 1, std::chrono::seconds(1));
  stores.took(true, 1, std::chrono::nanoseconds(1));
}

struct Job {
  Memory memory;
  std::vector<Simulated> ranks;
  std::vector<std::vector<Rank>> plans;        // members of Plan i + 1
  std::vector<Kind> kinds;                     // and of what kind it is
  unsigned gives_up_in_16 = 0;                 // how many of its Works a rank abandons, at some time
  std::atomic<std::size_t> ended_well = 0;     // Works, of Plans of which some are abandoned ...
  std::atomic<std::size_t> given_up = 0;       // ... and those
  std::atomic<std::size_t> went_in_place = 0;  // steps of Works that do
  std::atomic<std::size_t> streamed = 0;       // Works that may stream
  std::atomic<std::size_t> side_by_side = 0;   // Works that begin beside one of another kind

  Job(Kind kind, Rank size, std::size_t count, std::mt19937& random) {
    Welcome welcome;
    for (Rank rank = 0; rank < size; ++rank) {
      Simulated& simulated = ranks.emplace_back();
      simulated.rank = rank;
      std::shared_ptr<Window> window;
      if (kind == Kind::in_place || kind == Kind::mixed) {
        window = Window::make(rank, 8 << 20);
        simulated.in_window = window->allocate((count + 1) * kElements * sizeof(std::int32_t));
      }
      simulated.local_peers = std::make_unique<LocalPeers>(rank, Segment::make().segment, std::move(window));
      welcome.hosts.emplace_back("host");
      welcome.process_ids.push_back(1);
      welcome.peer_infos.push_back(simulated.local_peers->peer_info());
    }
    for (Simulated& simulated : ranks) simulated.local_peers->connect(welcome);
    for (std::size_t i = 1; i < ranks.size(); i += 2) {
      let_stream(ranks[i].stores.one_shot);
      let_stream(ranks[i].stores.in_place);
      let_stream(ranks[i].stores.staged);
    }
    for (std::size_t i = 0; i < count; ++i) {
      std::vector<Rank>& members = plans.emplace_back();
      while (members.empty()) {
        for (Rank rank = 0; rank < size; ++rank) {
          if (random() % 3 != 0) members.push_back(rank);
        }
      }
      const auto of_all = static_cast<unsigned>(Kind::mixed);
      kinds.push_back(kind == Kind::mixed ? static_cast<Kind>(random() % of_all) : kind);
    }
  }

  // The value of element i that `rank` brings to a Plan, and what all of them sum to.
  static std::int32_t value(std::uint64_t plan, Rank rank, std::int64_t i) {
    return static_cast<std::int32_t>(plan * 1000 + static_cast<std::uint64_t>(rank) * 10) +
           static_cast<std::int32_t>(i);
  }
  std::int32_t sum(std::uint64_t plan, std::int64_t i) const {
    std::int32_t total = 0;
    for (Rank member : plans[plan - 1]) total += value(plan, member, i);
    return total;
  }

  void begin(Simulated& rank) {
    const std::uint64_t number = ++rank.next;
    const std::vector<Rank>& members = plans[number - 1];
    if (std::ranges::find(members, rank.rank) == members.end()) return;
    const Kind kind = kinds[number - 1];
    auto other = [kind](const Simulated::Running& each) { return each.kind != kind; };
    if (std::ranges::any_of(rank.running, other)) ++side_by_side;
    Simulated::Running& running = rank.running.emplace_back();
    running.kind = kind;
    running.plan.number = number;
    running.plan.area =
        static_cast<std::uint8_t>(number % 5 == 0 ? 0 : number % kAreas);  // at times the last one's
    running.plan.dtype = DataType::int32;
    running.plan.chunk_bytes = 256;  // several chunks
    const bool short_broadcast = kind == Kind::one_shot && number % 5 == 1;
    if (kind == Kind::exchange || short_broadcast) {
      constexpr Operation kKinds[] = {Operation::allgather, Operation::alltoall, Operation::broadcast,
                                      Operation::reducescatter};
      running.plan.operation = short_broadcast ? Operation::broadcast : kKinds[number % 4];
      prepare_exchange(rank, running, members);
    } else {
      for (std::int64_t i = 0; i < kElements; ++i) {
        running.values.push_back(value(number, rank.rank, i));
        running.expected.push_back(sum(number, i));
      }
      running.result = running.values.data();
      if (kind == Kind::in_place) move_to_window(rank, running);
      const std::int64_t first = first_of(running.plan);
      add_tensor(running, "x", 0, first);
      // Some Plans have more tensors than a short offer names.
      const std::int64_t cut = number % 4 == 1 ? 8 : kElements;
      for (std::int64_t from = first; from < kElements; from += cut)
        add_tensor(running, "y", from, std::min(cut, kElements - from));
      if (kind == Kind::in_place && number % 3 == 0)  // out of place
        running.entries[1].submission().input.data = running.values.data() + first;
    }
    const StorePolicies& stores = rank.stores;
    const StorePolicy& choice = kind == Kind::one_shot   ? stores.one_shot
                                : kind == Kind::in_place ? stores.in_place
                                                         : stores.staged;
    streamed += choice.streams();
    running.work = start(rank, running, members);
    const std::size_t dice = number * 31 + static_cast<std::size_t>(rank.rank) * 17;
    if (dice % 16 < gives_up_in_16) running.gives_up_after = 1 + dice / 16 % 9;
  }

  // One in eight of these tensors stays where it is: then the others may not go in place either.
  static void move_to_window(const Simulated& rank, Simulated::Running& running) {
    if ((running.plan.number * 7 + static_cast<std::uint64_t>(rank.rank)) % 8 == 0) return;
    running.result = of_plan(rank, running.plan.number);
    std::ranges::copy(running.values, running.result);
  }

  static std::int32_t* of_plan(const Simulated& rank, std::uint64_t number) {
    return reinterpret_cast<std::int32_t*>(rank.in_window.get()) + number * kElements;
  }

  static constexpr std::int32_t kUntouched = -77;

  // A Work that has given up leaves its tensors to their owner, and nobody else is in them.
  static void use_again(Simulated& rank, const Simulated::Running& running) {
    if (!rank.in_window || running.result != of_plan(rank, running.plan.number)) return;
    std::fill_n(running.result, kElements, kUntouched);
    rank.given_up.push_back(running.plan.number);
  }

  // At the end: what use_again() has done is still there.
  void check_untouched() const {
    for (const Simulated& rank : ranks) {
      for (std::uint64_t plan : rank.given_up) {
        for (std::int64_t i = 0; i < kElements; ++i)
          ASSERT_EQ(of_plan(rank, plan)[i], kUntouched) << "rank " << rank.rank << ", plan " << plan;
      }
    }
  }

  static void add_tensor(Simulated::Running& running, const char* name, std::int64_t from,
                         std::int64_t elements) {
    Request request;
    request.name = name;
    request.dtype = running.plan.dtype;
    request.shape = {elements};
    assign_offset(running.plan,
                  running.plan.tensors.emplace_back(0, true, std::make_shared<const Request>(request)));
    Entry& entry =
        running.entries.emplace_back(running.plan.tensors.back().request, std::make_shared<HandleState>());
    entry.submission().output = {running.result + from, request.dtype, {elements}, {}};
    entry.submission().input = entry.submission().output;
  }

  // How many rows a rank gives to another, or to all.
  static std::int64_t rows(std::uint64_t plan, Rank from, Rank to) {
    return static_cast<std::int64_t>((plan + static_cast<std::uint64_t>(from * 5 + to * 3)) % 30);
  }

  void prepare_exchange(Simulated& rank, Simulated::Running& running, const std::vector<Rank>& members) {
    Plan& plan = running.plan;
    plan.root = members[plan.number / 4 % members.size()];
    RankSet all;
    for (Rank member : members) all.add(RankSet::of(member));
    plan.members = std::make_shared<const RankSet>(all);
    std::vector<std::int64_t> splits;
    for (Rank member : members) splits.push_back(rows(plan.number, rank.rank, member));
    std::int64_t given = kElements;
    if (plan.operation == Operation::allgather) given = rows(plan.number, rank.rank, 0);
    if (plan.operation == Operation::alltoall)
      given = std::accumulate(splits.begin(), splits.end(), std::int64_t{0});
    for (std::int64_t i = 0; i < given; ++i) running.values.push_back(value(plan.number, rank.rank, i));
    running.expected = expected(plan, rank.rank, members);
    running.result = running.values.data();
    add_tensor(running, "x", 0, given);
    Entry& entry = running.entries.front();
    if (plan.operation == Operation::alltoall) entry.submission().splits = splits;
    entry.handle->output = entry.submission().output;  // a broadcast's; the others make theirs
  }

  static std::vector<std::int32_t> expected(const Plan& plan, Rank rank, const std::vector<Rank>& members) {
    std::vector<std::int32_t> result;
    auto add = [&](Rank from, std::int64_t first, std::int64_t count) {
      for (std::int64_t i = first; i < first + count; ++i) result.push_back(value(plan.number, from, i));
    };
    const auto size = static_cast<std::int64_t>(members.size());
    const auto index = std::ranges::find(members, rank) - members.begin();
    if (plan.operation == Operation::broadcast) add(plan.root, 0, kElements);
    for (Rank from : members) {
      if (plan.operation == Operation::allgather) add(from, 0, rows(plan.number, from, 0));
      if (plan.operation != Operation::alltoall) continue;
      std::int64_t before = 0;
      for (Rank to : members) {
        if (to < rank) before += rows(plan.number, from, to);
      }
      add(from, before, rows(plan.number, from, rank));
    }
    if (plan.operation != Operation::reducescatter) return result;
    const std::int64_t begin = index * (kElements / size) + std::min(index, kElements % size);
    const std::int64_t count = kElements / size + (index < kElements % size ? 1 : 0);
    for (std::int64_t i = begin; i < begin + count; ++i) {
      std::int32_t total = 0;
      for (Rank member : members) total += value(plan.number, member, i);
      result.push_back(total);
    }
    return result;
  }

  std::unique_ptr<Work> start(Simulated& rank, Simulated::Running& running,
                              const std::vector<Rank>& members) {
    const std::size_t slot = running.plan.number % kSlots;
    if (running.kind == Kind::one_shot) {
      if (running.plan.number % 5 == 0) running.plan.operation = Operation::barrier;
      return one_shot::start(running.plan, running.entries,
                             {*rank.local_peers->group_of(members), slot, rank.last_use[slot], &rank.stores});
    }
    const std::size_t number = running.plan.area;
    const WorkContext area{*rank.local_peers->group_of(members), number, rank.last_area_use[number],
                           &rank.stores};
    if (running.kind == Kind::exchange)
      return staged_exchange::start(running.plan, running.entries.front(), area, memory);
    return staged_allreduce::start(running.plan, running.entries, area, memory);
  }

  // One turn of a background thread, up to `steps` steps of Works.
  void turn(Simulated& rank, std::size_t steps) {
    EventCountWord& word = rank.local_peers->contents(rank.rank).doorbell;
    if (rank.asleep && word.rings.load() == rank.heard) return;
    EventCount& doorbell = rank.local_peers->doorbell(rank.rank);
    rank.heard = doorbell.listen();
    rank.asleep = true;
    while (rank.next < plans.size() && rank.running.size() < kInFlight) {
      begin(rank);
      rank.asleep = false;
    }
    for (auto running = rank.running.begin(); running != rank.running.end() && steps > 0; --steps) {
      if (rank.before_step) rank.before_step(*running);
      if (running->gives_up_after == 1) running->work->abandon();
      if (running->gives_up_after > 0) --running->gives_up_after;
      const std::string_view phase = running->work->phase();
      const Work::Step step = running->work->step();
      if (step == Work::Step::again) rank.asleep = false;
      if (step == Work::Step::again || running->work->phase() != phase) ++running->moves;
      if (running->work->phase() == "waiting for others to reduce") ++went_in_place;
      if (step == Work::Step::done || step == Work::Step::given_up) {
        ++(step == Work::Step::done ? ended_well : given_up);
        step == Work::Step::done ? check(*running) : use_again(rank, *running);
        running = rank.running.erase(running);
        rank.asleep = false;
      } else {
        ++running;
      }
    }
    if (steps == 0) rank.asleep = false;  // has not looked at everything
    if (!rank.asleep) doorbell.stay_awake();
  }

  void check(const Simulated::Running& running) const {
    if (running.plan.operation == Operation::barrier) return;
    const std::int32_t* result = running.result;
    std::size_t count = running.values.size();
    if (running.entries.front().handle->output.data != nullptr) {
      const TensorView& output = running.entries.front().handle->output;
      result = static_cast<const std::int32_t*>(output.data);
      count = static_cast<std::size_t>(output.elements());
    }
    ASSERT_EQ(std::vector(result, result + count), running.expected)
        << to_string(running.plan.operation) << ", plan " << running.plan.number;
  }

  bool over(const Simulated& rank) const { return rank.next == plans.size() && rank.running.empty(); }
  bool over() const {
    return std::ranges::all_of(ranks, [this](const Simulated& rank) { return over(rank); });
  }
  // Whether somebody can still do something.
  bool alive() const {
    return std::ranges::any_of(ranks, [this](const Simulated& rank) {
      return !over(rank) &&
             (!rank.asleep || rank.local_peers->contents(rank.rank).doorbell.rings.load() != rank.heard);
    });
  }
};

}  // namespace rueda::shm_job
