// SPDX-License-Identifier: Apache-2.0
// The last news of ranks reach ruedarun, however many ranks end at one time.
#include "launcher/agent/host_observer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "core/observe/training/training_record.h"
#include "tests/unit/launcher/agent/supervisor_ends.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;

constexpr int kRanksOfHost = 8;
constexpr std::uint64_t kStepsOfRank = 300;

// Purpose: an agent with ranks whose history is long, and ruedarun.
struct Host {
  Host() {
    for (int rank = 0; rank < kRanksOfHost; ++rank) {
      records.push_back(std::make_unique<TrainingRecord>());
      observer.add_rank(rank);
      observer.take_page(rank, Descriptor(::fcntl(records.back()->descriptor(), F_DUPFD_CLOEXEC, 0)));
      observer.note_process(rank, ::getpid());
    }
    observer.obey({60'000});
    run([] { return true; }, 200ms);
  }
  // As long as the condition holds.
  void run(const std::function<bool()>& goes_on, std::chrono::milliseconds longest = 20s) {
    const auto until = std::chrono::steady_clock::now() + longest;
    while (goes_on() && std::chrono::steady_clock::now() < until) {
      observer.act(HostObserver::Clock::now(), line.agent);
      std::size_t cost = 0;
      for (const agents::Message& message : line.arrived()) {
        cost += agents::cost_of(agents::encode(message));
        if (const auto* news = std::get_if<agents::Observed>(&message)) last_steps[news->rank] = news->step;
        if (std::holds_alternative<agents::HostLoad>(message)) ++loads;
      }
      if (cost > 0) line.ruedarun.send(agents::encode(agents::Credit{static_cast<std::uint32_t>(cost)}));
    }
  }
  void train() {
    for (const auto& record : records) {
      for (std::uint64_t step = 0; step < kStepsOfRank; ++step) {
        record->begin_phase(Phase::backward);
        record->begin_phase(Phase::wait);
        record->end_step();
      }
    }
  }

  Line line;
  HostObserver observer;
  std::vector<std::unique_ptr<TrainingRecord>> records;
  std::map<int, std::uint64_t> last_steps;
  int loads = 0;
};

TEST(HostObserver, TheLastNewsOfAllRanksAreTold) {
  Host host;
  host.train();
  for (int rank = 0; rank < kRanksOfHost - 1; ++rank) host.observer.note_end(rank, host.line.agent);
  host.train();
  host.observer.end();  // the last rank has been killed
  EXPECT_TRUE(host.observer.is_telling());
  host.run([&] { return host.observer.is_telling(); });
  EXPECT_FALSE(host.observer.is_telling());
  host.run([&] { return host.line.agent.unsent() > 0; });
  host.run([] { return true; }, 50ms);
  ASSERT_EQ(host.last_steps.size(), std::size_t{kRanksOfHost});
  for (int rank = 0; rank < kRanksOfHost; ++rank)
    EXPECT_GE(host.last_steps[rank], kStepsOfRank) << "rank " << rank;
  EXPECT_EQ(host.last_steps[kRanksOfHost - 1], 2 * kStepsOfRank);
}

TEST(HostObserver, TellsTheLoadOfTheHostLessOftenThanItLooks) {
  Host host;
  host.observer.obey({1});
  host.loads = 0;
  host.run([] { return true; }, 100ms);
  EXPECT_EQ(host.loads, 1);
  host.observer.obey({1});  // somebody looks anew
  host.run([&] { return host.loads < 3; });
  EXPECT_EQ(host.loads, 3);
}

TEST(HostObserver, TellsNothingUnlessItIsAsked) {
  Host host;
  host.observer.obey({});
  host.last_steps.clear();
  host.train();
  host.observer.note_end(0, host.line.agent);
  host.observer.end();
  EXPECT_FALSE(host.observer.is_telling());
  host.run([] { return true; }, 50ms);
  EXPECT_TRUE(host.last_steps.empty());
}

}  // namespace
}  // namespace rueda
