// SPDX-License-Identifier: Apache-2.0
// Works over several hosts, in any interleaving of their steps: results are right, nobody waits for ever when
// any of them is abandoned at any time, and who sleeps is rung.
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/control/messages/control_message.h"
#include "ops/hierarchy/hierarchy_backend.h"
#include "tests/support/worlds/memory_network.h"

namespace rueda {
namespace {

using Sizes = std::vector<Rank>;  // of hosts

constexpr std::int64_t kJobElements = 1500;
constexpr std::int64_t kFirst = 333;       // of the first tensor; the others are the second's
constexpr std::size_t kInFlight = 6;       // so that several Works may want one area
constexpr std::int64_t kChunkBytes = 512;  // many chunks, more than an area has buffers

struct Running {
  Plan plan;
  std::vector<std::int32_t> values;    // of all tensors
  std::int32_t* tensors = nullptr;     // where they are; of an allreduce and a broadcast the result, too
  std::vector<std::int32_t> expected;  // of the result
  std::vector<Entry> entries;
  std::unique_ptr<Work> work;
  std::size_t gives_up_after = 0;  // steps; 0: never
};

struct Simulated {
  Rank rank = 0;
  std::shared_ptr<LocalPeers> local_peers;
  std::unique_ptr<LinkBackend> below;
  std::unique_ptr<HierarchyBackend> backend;
  std::shared_ptr<std::byte> in_window;  // room for the tensors of all Plans
  std::vector<std::uint64_t> given_up;   // Plans whose tensors lie there
  std::list<Running> running;
  std::size_t next = 0;  // of all Plans
  bool asleep = false;
  std::uint32_t heard = 0;
};

struct HierarchyJob {
  MemoryNetwork network;
  std::vector<Simulated> ranks;
  std::vector<std::shared_ptr<const RankSet>> plans;  // members of Plan i + 1
  unsigned gives_up_in_16 = 0;                        // how many of its Works a rank abandons, at some time
  std::size_t ended_well = 0;
  std::size_t given_up = 0;
  std::size_t went_in_place = 0;  // steps of Works that do

  HierarchyJob(const Sizes& sizes, std::size_t count, std::size_t slices, std::mt19937& random)
      : network(count_of(sizes)) {
    Welcome welcome;
    for (std::size_t host = 0; host < sizes.size(); ++host)
      welcome.hosts.insert(welcome.hosts.end(), static_cast<std::size_t>(sizes[host]), std::to_string(host));
    for (Rank rank = 0; rank < count_of(sizes); ++rank) add_rank(rank, welcome, slices, count);
    for (Simulated& each : ranks) {
      each.local_peers->connect(welcome);
      EXPECT_TRUE(each.local_peers->claim_wide_areas().ok());
    }
    while (plans.size() < count) {
      auto members = std::make_shared<RankSet>();
      for (Rank rank = 0; rank < count_of(sizes); ++rank) {
        if (random() % 4 != 0) members->add(RankSet::of(rank));
      }
      if (crosses_hosts(*members, welcome.hosts)) plans.push_back(std::move(members));
    }
  }

  static Rank count_of(const Sizes& sizes) {
    Rank count = 0;
    for (Rank size : sizes) count += size;
    return count;
  }

  // What can_run() wants.
  static bool crosses_hosts(const RankSet& members, const std::vector<std::string>& hosts) {
    std::map<std::string, int> on;
    int most = 0;
    for (Rank index = 0; index < members.count(); ++index)
      most = std::max(most, ++on[hosts[static_cast<std::size_t>(members.at(index))]]);
    return on.size() > 1 && most > 1;
  }

  void add_rank(Rank rank, Welcome& welcome, std::size_t slices, std::size_t plan_count) {
    Simulated& added = ranks.emplace_back();
    added.rank = rank;
    std::shared_ptr<Segment> segment = Segment::make().segment;
    EventCountWord& word = segment->contents().doorbell;
    network.set_doorbell(rank, std::make_shared<EventCount>(std::shared_ptr<EventCountWord>(segment, &word)));
    std::shared_ptr<Window> window = Window::make(rank, 1 << 20);
    added.in_window = window->allocate((plan_count + 1) * kJobElements * sizeof(std::int32_t));
    added.local_peers = std::make_shared<LocalPeers>(rank, std::move(segment), std::move(window));
    welcome.process_ids.push_back(1);
    welcome.peer_infos.push_back(added.local_peers->peer_info());
    auto hosts = std::make_shared<Hosts>([](Rank) { return true; });
    hosts->set_names(welcome.hosts);
    auto areas = std::make_shared<WideAreas>();
    areas->most_slices = slices;
    added.below =
        std::make_unique<LinkBackend>("memory", network.link(rank), rank, true, network.memory(rank));
    added.backend = std::make_unique<HierarchyBackend>(rank, *added.below, added.local_peers, hosts, areas);
  }

  static std::int32_t value(std::uint64_t plan, Rank rank, std::int64_t i) {
    return static_cast<std::int32_t>(plan * 1000 + static_cast<std::uint64_t>(rank) * 10) +
           static_cast<std::int32_t>(i);
  }
  std::int32_t sum(std::uint64_t plan, std::int64_t i) const {
    std::int32_t total = 0;
    const RankSet& members = *plans[plan - 1];
    for (Rank index = 0; index < members.count(); ++index) total += value(plan, members.at(index), i);
    return total;
  }

  // How many a rank gives to an allgather: of some plans none, of others more than an area holds.
  static std::int64_t rows(std::uint64_t plan, Rank rank) {
    return static_cast<std::int64_t>((plan * 7 + static_cast<std::uint64_t>(rank) * 5) % 11) *
           static_cast<std::int64_t>(plan % 3) * 40;
  }

  std::vector<std::int32_t> expected(const Plan& plan, Rank rank) const {
    std::vector<std::int32_t> result;
    const Rank size = plan.members->count(), index = plan.members->index_of(rank);
    std::int64_t begin = 0, end = kJobElements;
    if (plan.operation == Operation::reducescatter) {
      begin = index * (kJobElements / size) + std::min<std::int64_t>(index, kJobElements % size);
      end = begin + kJobElements / size + (index < kJobElements % size ? 1 : 0);
    }
    if (plan.operation == Operation::allreduce || plan.operation == Operation::reducescatter) {
      for (std::int64_t i = begin; i < end; ++i) result.push_back(sum(plan.number, i));
      return result;
    }
    for (Rank from = 0; from < size; ++from) {
      const Rank member = plan.members->at(from);
      const bool gathers = plan.operation == Operation::allgather;
      if (!gathers && member != plan.root) continue;
      const std::int64_t count = gathers ? rows(plan.number, member) : kJobElements;
      for (std::int64_t i = 0; i < count; ++i) result.push_back(value(plan.number, member, i));
    }
    return result;
  }

  void begin(Simulated& rank) {
    const std::uint64_t number = ++rank.next;
    if (!plans[number - 1]->contains(rank.rank)) return;
    Running& running = rank.running.emplace_back();
    running.plan.number = number;
    running.plan.process_set = static_cast<ProcessSetId>(number);
    running.plan.dtype = DataType::int32;
    running.plan.chunk_bytes = kChunkBytes;
    running.plan.members = plans[number - 1];
    constexpr Operation kKinds[] = {Operation::allreduce, Operation::allgather, Operation::broadcast,
                                    Operation::reducescatter};
    running.plan.operation = kKinds[number % 4];
    running.plan.root = running.plan.members->at(static_cast<Rank>(number) % running.plan.members->count());
    const std::int64_t given =
        running.plan.operation == Operation::allgather ? rows(number, rank.rank) : kJobElements;
    for (std::int64_t i = 0; i < given; ++i) running.values.push_back(value(number, rank.rank, i));
    running.expected = expected(running.plan, rank.rank);
    running.tensors = running.values.data();
    if (running.plan.operation == Operation::allreduce) {
      move_to_window(rank, running);
      add_tensor(running, "x", 0, kFirst);
      // Some Plans have more tensors than a short offer names.
      const std::int64_t cut = number % 8 == 4 ? 200 : kJobElements;
      for (std::int64_t from = kFirst; from < kJobElements; from += cut)
        add_tensor(running, "y", from, std::min(cut, kJobElements - from));
    } else {
      add_tensor(running, "x", 0, given);
      running.entries.front().handle->output = running.entries.front().submission().output;
    }
    running.work = rank.backend->start(running.plan, running.entries);
    const std::size_t dice = number * 31 + static_cast<std::size_t>(rank.rank) * 17;
    if (dice % 16 < gives_up_in_16) running.gives_up_after = 1 + dice / 16 * 7 % 40;
  }

  // One in eight of these tensors stays where it is: then its host may not go in place; others do.
  static void move_to_window(const Simulated& rank, Running& running) {
    if ((running.plan.number / 4 * 7 + static_cast<std::uint64_t>(rank.rank)) % 8 == 0) return;
    running.tensors = of_plan(rank, running.plan.number);
    std::ranges::copy(running.values, running.tensors);
  }

  static std::int32_t* of_plan(const Simulated& rank, std::uint64_t number) {
    return reinterpret_cast<std::int32_t*>(rank.in_window.get()) + number * kJobElements;
  }

  static constexpr std::int32_t kUntouched = -77;

  // A Work that has given up leaves its tensors to their owner, and nobody else is in them.
  static void use_again(Simulated& rank, const Running& running) {
    if (running.tensors != of_plan(rank, running.plan.number)) return;
    std::fill_n(running.tensors, kJobElements, kUntouched);
    rank.given_up.push_back(running.plan.number);
  }

  // At the end: what use_again() has done is still there.
  void check_untouched() const {
    for (const Simulated& rank : ranks) {
      for (const std::uint64_t plan : rank.given_up) {
        for (std::int64_t i = 0; i < kJobElements; ++i)
          ASSERT_EQ(of_plan(rank, plan)[i], kUntouched) << "rank " << rank.rank << ", plan " << plan;
      }
    }
  }

  static void add_tensor(Running& running, const char* name, std::int64_t from, std::int64_t elements) {
    Request request;
    request.name = name;
    request.dtype = running.plan.dtype;
    request.shape = {elements};
    assign_offset(running.plan,
                  running.plan.tensors.emplace_back(0, true, std::make_shared<const Request>(request)));
    Entry& entry =
        running.entries.emplace_back(running.plan.tensors.back().request, std::make_shared<HandleState>());
    entry.submission().output = {running.tensors + from, request.dtype, {elements}, {}};
    entry.submission().input = entry.submission().output;
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
      if (running->gives_up_after == 1) running->work->abandon();
      if (running->gives_up_after > 0) --running->gives_up_after;
      const Work::Step step = running->work->step();
      if (step != Work::Step::waiting) rank.asleep = false;
      if (running->work->phase() == "waiting for others to reduce") ++went_in_place;
      if (step == Work::Step::done || step == Work::Step::given_up) {
        ++(step == Work::Step::done ? ended_well : given_up);
        step == Work::Step::done ? check(*running) : use_again(rank, *running);
        running = rank.running.erase(running);
      } else {
        ++running;
      }
    }
    if (steps == 0) rank.asleep = false;  // has not looked at everything
    if (!rank.asleep) doorbell.stay_awake();
  }

  void check(const Running& running) const {
    const std::int32_t* result = running.tensors;
    std::size_t count = running.values.size();
    if (running.plan.operation != Operation::allreduce) {
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
  std::string phases() const {
    std::string words;
    for (const Simulated& rank : ranks) {
      for (const Running& running : rank.running)
        words += "rank " + std::to_string(rank.rank) + ", plan " + std::to_string(running.plan.number) +
                 ": " + std::string(running.work->phase()) + "\n";
    }
    return words;
  }

  void run(std::mt19937& random) {
    while (!over()) {
      ASSERT_TRUE(alive()) << "all sleep\n" << phases();
      turn(ranks[random() % ranks.size()], 1 + random() % 6);
      ASSERT_FALSE(testing::Test::HasFatalFailure());
    }
    check_untouched();
  }
};

const Sizes kHosts[] = {{2, 2}, {1, 2, 1}, {2, 2, 2}, {3, 1, 2}};

TEST(HierarchyJob, AnyInterleavingOfAnySets) {
  std::size_t went_in_place = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    HierarchyJob job(kHosts[seed % 4], 24, seed % 3, random);
    job.run(random);
    ASSERT_FALSE(HasFatalFailure());
    EXPECT_EQ(job.given_up, 0u);
    EXPECT_GT(job.ended_well, 24u);
    went_in_place += job.went_in_place;
  }
  EXPECT_GT(went_in_place, 100u);
}

// Works that are abandoned before they have packed, between chunks, or because another rank's is, here or on
// another host: nobody waits for ever, and who comes to a good end has right values.
TEST(HierarchyJob, AnyOfThemMayBeAbandoned) {
  std::size_t ended_well = 0, given_up = 0, went_in_place = 0;
  for (unsigned seed = 0; seed < 80; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    HierarchyJob job(kHosts[seed % 4], 24, seed % 3, random);
    job.gives_up_in_16 = 1 + seed % 5;
    job.run(random);
    ASSERT_FALSE(HasFatalFailure());
    ended_well += job.ended_well;
    given_up += job.given_up;
    went_in_place += job.went_in_place;
  }
  EXPECT_GT(ended_well, 500u);
  EXPECT_GT(given_up, 500u);
  EXPECT_GT(went_in_place, 100u);
}

}  // namespace
}  // namespace rueda
