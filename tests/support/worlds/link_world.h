// SPDX-License-Identifier: Apache-2.0
// Works over links with ranks in one thread, so that a test chooses in which order they step.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/submissions/submission.h"
#include "ops/algorithms/link_backend.h"
#include "tests/support/worlds/memory_network.h"

namespace rueda {

// Purpose: one rank's part of an allreduce of float32, in place.
struct LinkPart {
  Plan plan;
  std::vector<std::vector<float>> tensors;
  std::vector<Entry> entries;
  std::unique_ptr<Work> work;
  Work::Step end = Work::Step::again;
  int abandoned_after = -1;  // steps

  // `what`: the Plan, but for its members and tensors.
  LinkPart(Plan what, Rank ranks, std::vector<std::vector<float>> values, const std::string& name = "")
      : plan(std::move(what)), tensors(std::move(values)) {
    plan.members = std::make_shared<const RankSet>(0, ranks);
    for (auto& tensor : tensors) {
      Request request;
      request.name = name;
      request.shape = {static_cast<std::int64_t>(tensor.size())};
      assign_offset(plan, plan.tensors.emplace_back(0, true, std::make_shared<const Request>(request)));
    }
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      entries.emplace_back(plan.tensors[i].request, std::make_shared<HandleState>());
      Submission& submission = entries.back().submission();
      submission.output = {
          tensors[i].data(), DataType::float32, {static_cast<std::int64_t>(tensors[i].size())}, {}};
      submission.input = submission.output;
    }
  }

  bool over() const { return end == Work::Step::done || end == Work::Step::given_up; }
  // Abandons it first where its time has come, which `abandoning` sees; counts how it ends.
  void step(
      int& done, int& given_up, const std::function<void()>& abandoning = [] {}) {
    if (abandoned_after-- == 0) {
      abandoning();
      work->abandon();
    }
    end = work->step();
    if (!over()) return;
    ++(end == Work::Step::done ? done : given_up);
    work.reset();
  }
};

// Purpose: the parts of all ranks in two Plans at the same time. A test's own.
struct LinkWorld {
  using Make = std::function<LinkPart(std::uint64_t number, Rank rank)>;

  MemoryNetwork network;
  std::vector<std::unique_ptr<LinkBackend>> backends;
  std::vector<std::unique_ptr<LinkPart>> parts;  // of Plans 1 and 2, by rank

  // `abandons`: how many of 100 Works, after fewer than `steps`.
  LinkWorld(Rank ranks, const Make& make, std::mt19937& random, unsigned abandons, unsigned steps)
      : network(ranks) {
    for (Rank rank = 0; rank < ranks; ++rank) {
      backends.push_back(std::make_unique<LinkBackend>("memory", network.link(rank), rank, true));
      for (std::uint64_t number : {1, 2}) {
        LinkPart& part = *parts.emplace_back(std::make_unique<LinkPart>(make(number, rank)));
        part.work = backends.back()->start(part.plan, part.entries);
        if (random() % 100 < abandons) part.abandoned_after = static_cast<int>(random() % steps);
      }
    }
  }

  // In any order, to the end of all.
  void run(
      std::mt19937& random, int& done, int& given_up, const std::function<void(const LinkPart&)>& check,
      const std::function<void(const LinkPart&)>& abandoning = [](const LinkPart&) {}) {
    int steps = 0;
    while (!std::ranges::all_of(
        parts, &LinkPart::over, [](const auto& part) -> auto& { return *part; })) {
      ASSERT_LT(++steps, 200'000) << "somebody waits for ever";
      LinkPart& part = *parts[random() % parts.size()];
      if (part.over()) continue;
      part.step(done, given_up, [&] { abandoning(part); });
      if (part.end == Work::Step::done) check(part);
    }
  }
};

// Runs `world` (seed, abandons of 100, done, given up) for so many seeds.
using RunLinkWorld = std::function<void(unsigned, unsigned, int&, int&)>;
inline void expect_all_done(const RunLinkWorld& world) {
  int done = 0, given_up = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    world(seed, 0, done, given_up);
    ASSERT_FALSE(testing::Test::HasFatalFailure()) << "seed " << seed;
  }
  EXPECT_EQ(given_up, 0);
}
inline void expect_many_abandoned(unsigned seeds, const RunLinkWorld& world) {
  int done = 0, given_up = 0;
  for (unsigned seed = 0; seed < seeds; ++seed) {
    world(seed, 1 + seed % 20, done, given_up);
    ASSERT_FALSE(testing::Test::HasFatalFailure()) << "seed " << seed;
  }
  EXPECT_GT(done, 300);
  EXPECT_GT(given_up, 300);
}

}  // namespace rueda
