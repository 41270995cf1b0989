// SPDX-License-Identifier: Apache-2.0
// What can be observed of ranks that work: timelines of all ranks in one file, metrics, reports.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "core/engine/runtime.h"
#include "core/observe/rank_file.h"
#include "core/observe/timeline_merge.h"
#include "rueda/rueda.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

using nlohmann::json;

json read(const std::string& path) {
  std::ifstream file(path);
  return json::parse(file);
}

void sum_up(Runtime& runtime, const std::string& name, std::vector<float>& values) {
  allreduce_async(name, view(values), view(values), {ReduceOp::sum}, runtime).wait();
}

struct Slice {
  double begin = 0;
  double end = 0;
};
// By rank, row and name, in order. Checks that begins and ends nest and that time goes on.
using Slices = std::map<std::tuple<int, std::string, std::string>, std::vector<Slice>>;

Slices slices_of(const json& events) {
  std::map<std::pair<int, int>, std::string> labels;
  std::map<std::pair<int, int>, std::vector<std::pair<std::string, double>>> open;
  std::map<std::pair<int, int>, double> last;
  Slices slices;
  for (const json& event : events) {
    const std::pair<int, int> row{event.at("pid"), event.at("tid")};
    const std::string kind = event.at("ph");
    if (kind == "M" && event.at("name") == "thread_name") labels[row] = event.at("args").at("name");
    if (kind != "B" && kind != "E") continue;
    const double time = event.at("ts");
    EXPECT_GE(time, last[row]);
    last[row] = time;
    if (kind == "B") {
      open[row].emplace_back(event.at("name"), time);
    } else if (open[row].empty()) {
      ADD_FAILURE() << "an end without a begin: " << event;
    } else {
      const auto [name, begin] = open[row].back();
      open[row].pop_back();
      slices[{row.first, labels.at(row), name}].push_back({begin, time});
    }
  }
  for (const auto& [row, left] : open) EXPECT_TRUE(left.empty()) << labels[row];
  return slices;
}

TEST(Observe, OneTimelineShowsAllRanks) {
  constexpr Rank kRanks = 3;
  constexpr int kTensors = 5, kRounds = 4;
  ScratchFolder folder;
  const std::string path = folder.path() / "trace.json";
  run_ranks(kRanks, [&](Runtime& runtime) {
    std::vector<float> values(3000, 1.0f);
    sum_up(runtime, "before", values);
    runtime.start_timeline(path, true);
    EXPECT_THROW(runtime.start_timeline(path), InvalidArgument);
    barrier_async(runtime).wait();  // all are tracing
    for (int round = 0; round < kRounds; ++round) {
      std::vector<std::vector<float>> tensors(kTensors, values);
      std::vector<Handle> handles;
      for (int i = 0; i < kTensors; ++i)
        handles.push_back(allreduce_async("x" + std::to_string(i), view(tensors[i]), view(tensors[i]),
                                          {ReduceOp::sum}, runtime));
      for (const Handle& handle : handles) handle.wait();
    }
    runtime.stop_timeline();
    sum_up(runtime, "after", values);
  });
  const json events = read(path);
  const Slices slices = slices_of(events);
  for (int i = 0; i < kTensors; ++i) {
    const std::string label = "allreduce.x" + std::to_string(i);
    std::vector<double> last_submitted(kRounds, 0), first_planned(kRounds, 1e300);
    for (Rank rank = 0; rank < kRanks; ++rank) {
      const auto& negotiated = slices.at({rank, label, "NEGOTIATE_ALLREDUCE"});
      const auto& reduced = slices.at({rank, label, "ALLREDUCE"});
      const auto& waited = slices.at({rank, label, "WAITING"});
      ASSERT_EQ(negotiated.size(), static_cast<std::size_t>(kRounds));
      ASSERT_EQ(reduced.size(), static_cast<std::size_t>(kRounds));
      ASSERT_EQ(waited.size(), static_cast<std::size_t>(kRounds));
      ASSERT_FALSE(slices.at({rank, label, "REDUCE"}).empty());
      for (int round = 0; round < kRounds; ++round) {
        EXPECT_EQ(negotiated[round].end, reduced[round].begin);
        EXPECT_LE(waited[round].end, reduced[round].end);
        last_submitted[round] = std::max(last_submitted[round], negotiated[round].begin);
        first_planned[round] = std::min(first_planned[round], negotiated[round].end);
      }
    }
    // One clock for all: nobody has a Plan before everybody has submitted.
    for (int round = 0; round < kRounds; ++round) EXPECT_LT(last_submitted[round], first_planned[round]);
  }
  const std::string text = events.dump();
  EXPECT_THAT(text, testing::HasSubstr("CYCLE_START"));
  EXPECT_THAT(text, testing::HasSubstr("start_time_since_epoch_in_micros"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("allreduce.before")));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("allreduce.after")));
  for (Rank rank = 1; rank < kRanks; ++rank) EXPECT_FALSE(std::filesystem::exists(path_of_rank(path, rank)));
}

TEST(Observe, FusedTensorsShowPackingAndUnpacking) {
  ScratchFolder folder;
  Config config;
  config.timeline = folder.path() / "rank%r.json";  // from init to shutdown, not merged
  config.cycle_time = 200;                          // long enough for all to come together
  constexpr int kTensors = 20;
  run_ranks(
      2,
      [&](Runtime& runtime) {
        std::vector<std::vector<float>> tensors(kTensors, std::vector<float>(100, 1.0f));
        std::vector<Handle> handles;
        for (int i = 0; i < kTensors; ++i)
          handles.push_back(allreduce_async("x" + std::to_string(i), view(tensors[i]), view(tensors[i]),
                                            {ReduceOp::sum}, runtime));
        for (const Handle& handle : handles) handle.wait();
      },
      config);
  for (const char* name : {"rank0.json", "rank1.json"}) {
    const Slices slices = slices_of(read(folder.path() / name));
    std::set<std::string> names;
    for (const auto& [key, all] : slices) names.insert(std::get<2>(key));
    for (const char* phase : {"WAITING", "PACK", "REDUCE", "UNPACK"})
      EXPECT_TRUE(names.contains(phase)) << phase;
  }
}

TEST(Observe, MetricsCountWhatWasDone) {
  ScratchFolder folder;
  Config config;
  config.metrics_file = folder.path() / "metrics.prom";
  run_ranks(
      2,
      [](Runtime& runtime) {
        EXPECT_EQ(runtime.metrics().last_submission_ns, 0);
        std::int64_t begin = 0, end = 0;
        for (int i = 0; i < 10; ++i) {
          std::vector<float> values(25, 1.0f);
          begin = monotonic_ns();
          sum_up(runtime, "x", values);
          end = monotonic_ns();
        }
        const MetricsSnapshot times = runtime.metrics();
        EXPECT_LT(begin, times.last_submission_ns);
        EXPECT_LE(times.last_submission_ns, times.last_plan_ns);
        EXPECT_LT(times.last_plan_ns, end);
        EXPECT_EQ(times.clock_offset_ns, 0);  // one process, one clock
        std::vector<float> wrong(runtime.topology().rank == 0 ? 3 : 4);
        EXPECT_EQ(allreduce_async("wrong", view(wrong), view(wrong), {}, runtime).wait_status().code,
                  StatusCode::mismatch);
        const MetricsSnapshot metrics = runtime.metrics();
        EXPECT_EQ(metrics.rank, runtime.topology().rank);
        EXPECT_EQ(metrics.operations[0].operation, Operation::allreduce);
        EXPECT_EQ(metrics.operations[0].completed, 10u);
        EXPECT_EQ(metrics.operations[0].failed, 1u);
        EXPECT_EQ(metrics.operations[0].bytes, 1000u);
        EXPECT_EQ(metrics.negotiation.count, 11u);
        EXPECT_EQ(metrics.waiting.count, 10u);
        EXPECT_EQ(metrics.data.count, 10u);
        EXPECT_EQ(metrics.plans, 10u);
        EXPECT_EQ(metrics.works_in_flight, 0u);
        EXPECT_EQ(metrics.most_works_in_flight, 1u);
      },
      config);
  for (Rank rank = 0; rank < 2; ++rank) {
    std::ifstream file(path_of_rank(config.metrics_file, rank));
    const std::string text(std::istreambuf_iterator<char>(file), {});
    EXPECT_THAT(text, testing::HasSubstr("rueda_bytes_total{rank=\"" + std::to_string(rank) +
                                         "\",operation=\"allreduce\"} 1000\n"));
  }
}

TEST(Observe, AnyThreadMayStartStopAndLookWhileRanksWork) {
  ScratchFolder folder;
  run_ranks(3, [&](Runtime& runtime) {
    std::atomic<bool> done{false};
    std::thread looker([&] {
      const std::string path =
          (folder.path() / ("t" + std::to_string(runtime.topology().rank) + "%r")).string();
      while (!done.load()) {
        runtime.start_timeline(path, true);
        to_prometheus_text(runtime.metrics());
        EXPECT_THAT(runtime.report(), testing::HasSubstr("the background thread is"));
        runtime.stop_timeline();
        EXPECT_TRUE(timeline_ended(path_of_rank(path, runtime.topology().rank)));
      }
    });
    std::vector<float> values(100, 1.0f);
    for (int i = 0; i < 300; ++i) sum_up(runtime, "x" + std::to_string(i % 7), values);
    done = true;
    looker.join();
  });
}

TEST(Observe, ATimelineThatCannotBeWrittenIsAnErrorOfTheCallerAlone) {
  Config config;
  config.timeline = "/no/such/folder/trace.json";  // a warning
  run_ranks(
      2,
      [](Runtime& runtime) {
        EXPECT_THROW(runtime.start_timeline("/no/such/folder/trace.json"), InvalidArgument);
        std::vector<float> values(10, 1.0f);
        sum_up(runtime, "x", values);
        EXPECT_EQ(values[0], 2.0f);
      },
      config);
}

TEST(Observe, ATreeOfSeveralLevelsStartsAndWorks) {
  run_ranks(36, [](Runtime& runtime) {  // rank 33 and on are children of rank 1
    std::vector<float> values(4, 1.0f);
    sum_up(runtime, "x", values);
    EXPECT_EQ(values[0], 36.0f);
  });
}

}  // namespace
}  // namespace rueda
