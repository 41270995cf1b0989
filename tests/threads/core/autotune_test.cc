// SPDX-License-Identifier: Apache-2.0
// Ranks whose tuning parameters change while they work: the results stay right.
#include <gmock/gmock.h>

#include <fstream>
#include <map>
#include <random>
#include <sstream>

#include "core/engine/runtime.h"
#include "core/observe/rank_file.h"
#include "rueda/rueda.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {
namespace {

// Hasty, so that tuning parameters change every other step.
Config hasty(const std::string& log) {
  Config config;
  config.autotune = true;
  config.autotune_log = log;
  config.autotune_warmup_samples = 1;
  config.autotune_steps_per_sample = 1;
  config.autotune_candidates = 20;
  return config;
}

// `steps` steps of allreduces of several sizes, submitted in an order of each rank's own; all results are
// checked.
void train(Runtime& runtime, int steps) {
  const Rank rank = runtime.topology().rank, size = runtime.topology().size;
  std::mt19937 random(static_cast<unsigned>(rank) + 1);
  const std::vector<std::size_t> sizes{1, 3, 100, 1000, 5000, 40000, 2, 800, 20000, 17};
  std::vector<std::vector<float>> tensors;
  for (std::size_t elements : sizes) tensors.emplace_back(elements);
  std::vector<std::size_t> order(sizes.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  for (int step = 0; step < steps; ++step) {
    std::ranges::shuffle(order, random);
    std::vector<Handle> handles;
    for (std::size_t i : order) {
      for (std::size_t at = 0; at < sizes[i]; ++at)
        tensors[i][at] = static_cast<float>(rank + 1) * static_cast<float>(1 + (at + i + step) % 7);
      handles.push_back(allreduce_async("grad" + std::to_string(i), view(tensors[i]), view(tensors[i]),
                                        {ReduceOp::sum}, runtime));
    }
    for (const Handle& handle : handles) handle.wait();
    const auto ranks = static_cast<float>(size * (size + 1) / 2);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      for (std::size_t at = 0; at < sizes[i]; ++at)
        ASSERT_EQ(tensors[i][at], ranks * static_cast<float>(1 + (at + i + step) % 7))
            << "step " << step << " tensor " << i << " at " << at;
    }
  }
}

std::map<std::string, int> states_in(const std::string& path) {
  std::ifstream file(path);
  std::map<std::string, int> states;
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::istringstream cells(line);
    std::string cell;
    for (int i = 0; i < 3; ++i) std::getline(cells, cell, ',');
    ++states[cell];
  }
  return states;
}

TEST(Autotune, ResultsStayRightWhileParametersChange) {
  ScratchFolder folder;
  for (std::size_t slots : {std::size_t{0}, std::size_t{8}}) {
    const std::string path = folder.path() / ("tuning" + std::to_string(slots) + ".csv");
    run_ranks(
        3,
        [](Runtime& runtime) {
          train(runtime, 80);
          if (runtime.topology().rank != 0) {
            EXPECT_FALSE(runtime.metrics().tuned);
            return;
          }
          const MetricsSnapshot metrics = runtime.metrics();
          EXPECT_TRUE(metrics.tuned);
          EXPECT_GE(metrics.parameters.chunk_bytes, 64 << 10);
          EXPECT_EQ(metrics.parameters.fusion_threshold, static_cast<std::int64_t>(metrics.fusion_threshold));
          EXPECT_THAT(to_prometheus_text(metrics), testing::HasSubstr("rueda_autotune_route_bytes"));
        },
        hasty(path), slots);
    std::map<std::string, int> states = states_in(path);
    EXPECT_GE(states["candidate"], 5);
    EXPECT_GE(states["compared"], 1);
    EXPECT_GE(states["verdict"], 1);
  }
}

TEST(Autotune, ProcessSetsAndErrorsGoOnBesideIt) {
  run_ranks(
      3,
      [](Runtime& runtime) {
        RankSet ends = RankSet::of(0);
        ends.add(RankSet::of(2));
        const ProcessSet pair = add_process_set(ends, runtime);
        std::vector<float> wrong(runtime.topology().rank == 0 ? 3 : 4), some(9, 1.0f);
        for (int round = 0; round < 8; ++round) {
          train(runtime, 5);
          EXPECT_EQ(allreduce_async("wrong", view(wrong), view(wrong), {}, runtime).wait_status().code,
                    StatusCode::mismatch);
          if (runtime.topology().rank == 1) continue;
          std::ranges::fill(some, 1.0f);
          allreduce_async("some", view(some), view(some), {ReduceOp::sum}, pair).wait();
          EXPECT_EQ(some[8], 2.0f);
        }
      },
      hasty(""), 8);
}

TEST(Autotune, ALogThatCannotBeWrittenIsAWarning) {
  ScratchFolder folder;
  run_ranks(
      2, [](Runtime& runtime) { train(runtime, 20); }, hasty("/no/such/folder/tuning.csv"));
}

}  // namespace
}  // namespace rueda
