// SPDX-License-Identifier: Apache-2.0
// The tuner against a world whose costs are known.
#include "core/control/autotune/autotuner.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "core/control/scheduling/coordinator.h"
#include "tests/support/worlds/control_world.h"

namespace rueda {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

Duration seconds(double value) { return from_seconds(value); }

// One program: tensors that become ready one after another, and what its backends cost.
struct Program {
  int tensors = 64;
  std::int64_t bytes = 64 << 10;
  double apart = 100e-6;  // seconds between them
  double compute = 1e-3;  // after the last Plan
  double per_plan = 20e-6;
  double per_byte = 1e-9;
  double best_chunk = 0;  // messages of other sizes cost 30 % more; 0: they do not matter
  double second_factor = 2;
  double noise = 0;  // of a step's whole time
  std::string name = "layer";
};

// Purpose: the Coordinator of a job of which everything but rank 0's part is imagined.
class World {
 public:
  World(Program program, unsigned seed, TuningParameters defaults, TuningSearch::Settings settings = {})
      : program(std::move(program)),
        random_(seed),
        coordinator_(FusionPlanner(defaults, first(), second()),
                     {defaults.linger, defaults.fusion_threshold, 0}) {
    settings.defaults = defaults;
    tuner_ = std::make_unique<Autotuner>(settings, first(), second());
    coordinator_.tune(tuner_.get());
  }

  Program program;
  std::vector<TuningRecord> records;

  void steps(int count) {
    for (int i = 0; i < count; ++i) step();
  }
  void step() {
    const Time begin = now_;
    std::vector<Plan> plans;
    for (int i = 0; i < program.tensors; ++i) {
      const Time at = begin + seconds(program.apart * i);
      call_due(at);
      now_ = at;
      coordinator_.ready(request(i), {}, now_);
      run(coordinator_.call(now_, i + 1 < program.tensors));
    }
    call_due(Time::max());
    now_ = std::max(now_, busy_until_) + seconds(program.compute);
    if (program.noise > 0)
      now_ = begin + Duration(static_cast<Duration::rep>(
                         static_cast<double>((now_ - begin).count()) *
                         std::lognormal_distribution<double>(0, program.noise)(random_)));
    busy_until_ = now_;
    std::ranges::move(tuner_->take_news().records, std::back_inserter(records));
  }
  void search() {
    for (int i = 0; i < 10000 && count("verdict") == 0; ++i) steps(10);
  }
  void pause(double time) { now_ += seconds(time); }
  const TuningParameters& parameters() { return tuner_->parameters(); }
  void end() {
    tuner_->end();
    std::ranges::move(tuner_->take_news().records, std::back_inserter(records));
  }

  // The time of a step with these parameters, without noise.
  static double step_time(Program program, const TuningParameters& parameters) {
    program.noise = 0;
    World world(program, 1, parameters, {.warmup_samples = 1000000});
    world.steps(3);
    const Time begin = world.now_;
    world.step();
    return std::chrono::duration<double>(world.now_ - begin).count();
  }

  int count(std::string_view state) const {
    return static_cast<int>(std::ranges::count(records, state, &TuningRecord::state));
  }
  const TuningRecord& last(std::string_view state) const {
    auto found = std::ranges::find(records.rbegin(), records.rend(), state, &TuningRecord::state);
    EXPECT_NE(found, records.rend()) << state;
    return *found;
  }

 private:
  static FusionPlanner::ChooseBackend first() {
    return [](Plan&) { return std::uint8_t{0}; };
  }
  static FusionPlanner::ChooseBackend second() {
    return [](Plan&) { return std::uint8_t{1}; };
  }

  SharedRequest request(int i) {
    SharedRequest& known = requests_[{program.name, i}];
    if (!known)
      known =
          std::make_shared<const Request>(request_for(program.name + std::to_string(i), {program.bytes / 4}));
    return known;
  }
  void call_due(Time end) {
    if (const std::optional<Time> due = coordinator_.due(); due && *due <= end) {
      now_ = std::max(now_, *due);
      run(coordinator_.call(now_, false));
    }
  }
  void run(const std::vector<Plan>& plans) {
    for (const Plan& plan : plans) {
      double cost = program.per_plan + program.per_byte * static_cast<double>(plan.buffer_bytes);
      if (plan.backend == 1) cost *= program.second_factor;
      if (program.best_chunk > 0 && static_cast<double>(plan.chunk_bytes) != program.best_chunk) cost *= 1.3;
      busy_until_ = std::max(busy_until_, now_) + seconds(cost);
    }
  }

  std::mt19937 random_;
  std::unique_ptr<Autotuner> tuner_;
  Coordinator coordinator_;
  Time now_{};
  Time busy_until_{};
  std::map<std::pair<std::string, int>, SharedRequest> requests_;
};

constexpr std::int64_t kKiB = 1024, kMiB = 1 << 20;
const TuningParameters kDefaults{64 * kMiB, milliseconds(1), 256 * kKiB};

// Enough for a search with the settings above.
constexpr int kLong = 8000;

TEST(Autotuner, FindsTheBestFusion) {
  // Lingering for everything hides nothing behind the program's own work; tensors alone cost too much.
  TuningParameters defaults = kDefaults;
  defaults.linger = milliseconds(100);
  for (unsigned seed : {1u, 2u, 3u}) {
    World world({.noise = 0.02}, seed, defaults);
    world.search();
    double best = 1;
    for (std::int64_t threshold = 64 * kKiB; threshold <= 4 * kMiB; threshold *= 2)
      best = std::min(best, World::step_time({}, {threshold, milliseconds(100), 256 * kKiB}));
    EXPECT_LT(World::step_time({}, world.parameters()), best * 1.03) << world.last("verdict").words;
    EXPECT_GT(World::step_time({}, defaults), best * 1.3);
    EXPECT_THAT(world.last("verdict").words, HasSubstr("% less"));
  }
}

TEST(Autotuner, FindsABetterSecondRouteAndABetterChunk) {
  World world({.apart = 0, .best_chunk = 512 * kKiB, .second_factor = 0.5, .noise = 0.02}, 4, kDefaults);
  world.search();
  EXPECT_LT(world.parameters().route_bytes, 4 * kMiB);
  EXPECT_EQ(world.parameters().chunk_bytes, 512 * kKiB);
}

// The shortest step of all combinations of some values.
double best_of_all(const Program& program) {
  double best = std::numeric_limits<double>::infinity();
  const auto best_chunk = static_cast<std::int64_t>(program.best_chunk);
  for (std::int64_t fusion : {std::int64_t{0}, 64 * kKiB, 256 * kKiB, kMiB, 2 * kMiB, 4 * kMiB, 64 * kMiB}) {
    for (std::int64_t route : {std::int64_t{0}, kMiB, 4 * kMiB, 256 * kMiB}) {
      for (int linger : {0, 250, 1000, 4000, 20000}) {
        const TuningParameters parameters{fusion, microseconds(linger),
                                          best_chunk > 0 ? best_chunk : 256 * kKiB, route};
        best = std::min(best, World::step_time(program, parameters));
      }
    }
  }
  return best;
}

// docs/decisions/005-tuner.md has the figures of this test.
TEST(Autotuner, ComesNearTheBestOfAllCombinationsWithTheDefaultBudget) {
  // The gradients of a BERT, one after another: many candidates lose before a chunk of twice the size wins.
  Program gradients{
      .tensors = 106, .bytes = 860 << 10, .apart = 300e-6, .best_chunk = 512 * kKiB, .noise = 0.02};
  Program two_routes = gradients;
  two_routes.second_factor = 0.5;
  const std::vector<Program> programs{
      gradients,
      two_routes,
      {.tensors = 200, .bytes = 16 << 10, .apart = 20e-6, .noise = 0.02},
      {.tensors = 32, .bytes = 1 << 20, .apart = 2e-3, .noise = 0.02},
      {.apart = 0, .per_plan = 200e-6, .noise = 0.02},
      {.apart = 0, .best_chunk = 1024 * kKiB, .second_factor = 0.8, .noise = 0.02},
      {.tensors = 16,
       .bytes = 4 << 20,
       .apart = 1e-3,
       .per_byte = 4e-9,
       .best_chunk = 128 * kKiB,
       .noise = 0.02}};
  for (std::size_t i = 0; i < programs.size(); ++i) {
    World world(programs[i], 10, kDefaults);
    world.search();
    const double found = World::step_time(programs[i], world.parameters()), best = best_of_all(programs[i]);
    EXPECT_LT(found, best * 1.03) << "program " << i << ": " << world.last("verdict").words;
    EXPECT_LT(world.count("compared"), TuningSearch::Settings().candidates) << "program " << i;
    const std::string figures = fmt::format("defaults {:.2f}, found {:.2f}, best {:.2f} ms; {} candidates",
                                            World::step_time(programs[i], kDefaults) * 1e3, found * 1e3,
                                            best * 1e3, world.count("compared"));
    RecordProperty("program_" + std::to_string(i), figures);
  }
}

TEST(Autotuner, MeasuresAtOnceWithoutAWarmUp) {
  World world({.noise = 0.02}, 11, kDefaults, {.warmup_samples = 0});
  world.search();
  EXPECT_EQ(world.count("warmup"), 0);
  EXPECT_GT(world.count("compared"), 0);
}

TEST(Autotuner, TellsThatNoCandidateMayBeMeasured) {
  World world({.noise = 0.02}, 12, kDefaults, {.candidates = 0});
  world.search();
  EXPECT_EQ(world.parameters(), kDefaults);
  EXPECT_EQ(world.last("verdict").words, "keeps the defaults: 0 candidates may be measured");
}

// What is told about each comparison fits the samples that were told.
void expect_honest(const World& world) {
  int of_base = 0, of_candidate = 0;
  for (const TuningRecord& line : world.records) {
    if (line.state == "base") {
      EXPECT_EQ(line.sample, ++of_base);
    } else if (line.state == "candidate") {
      EXPECT_EQ(line.sample, ++of_candidate);
    }
    if (line.state != "compared") continue;
    EXPECT_GE(line.sample, Comparison::kAlternations);
    EXPECT_EQ(of_base, line.sample);
    EXPECT_EQ(of_candidate, line.sample);
    of_base = of_candidate = 0;
  }
}

TEST(Autotuner, KeepsTheDefaultsWhereNothingIsBetter) {
  // All at once: one Plan is best.
  World world({.apart = 0, .per_plan = 200e-6, .noise = 0.02}, 5, kDefaults);
  world.search();
  EXPECT_EQ(world.parameters(), kDefaults);
  EXPECT_GT(world.count("candidate"), 0);
  EXPECT_THAT(world.last("verdict").words, HasSubstr("keeps the defaults"));
  expect_honest(world);
}

TEST(Autotuner, DoesNotTakeNoiseForGain) {
  // A chunk of 512 KiB saves 2 % of a step; noise is 20 %.
  int changed = 0;
  for (unsigned seed = 1; seed <= 40; ++seed) {
    Program program{.tensors = 8,
                    .bytes = 512 << 10,
                    .apart = 0,
                    .compute = 60e-3,
                    .best_chunk = 512 * kKiB,
                    .noise = 0.2};
    World world(program, seed, kDefaults);
    world.search();
    EXPECT_GT(world.count("compared"), 0);
    expect_honest(world);
    changed += world.parameters() != kDefaults;
  }
  EXPECT_LE(changed, 4);  // of 240 comparisons
}

TEST(Autotuner, SeesAGainThroughNoise) {
  TuningParameters defaults = kDefaults;
  defaults.linger = milliseconds(100);
  int found = 0;
  for (unsigned seed = 1; seed <= 20; ++seed) {
    World world({.tensors = 16, .bytes = 256 << 10, .apart = 400e-6, .noise = 0.2}, seed, defaults);
    world.search();
    found +=
        World::step_time(world.program, world.parameters()) < 0.8 * World::step_time(world.program, defaults);
  }
  EXPECT_GE(found, 19);
}

TEST(Autotuner, AnEvaluationOnlyPausesTheSearch) {
  World world({.apart = 0, .per_plan = 200e-6, .noise = 0.02}, 6, kDefaults);
  const Program training = world.program;
  for (int epoch = 0; epoch < 100; ++epoch) {
    world.program = training;
    world.steps(40);
    world.pause(epoch % 2 == 0 ? 30 : 0);  // one that asks the others nothing
    if (epoch % 2 == 0) continue;
    world.program.name = "evaluation";
    world.program.tensors = 1;
    world.steps(15);
  }
  EXPECT_EQ(world.parameters(), kDefaults);
  int verdicts = 0;
  for (const TuningRecord& line : world.records) {
    if (line.pattern != 1) continue;
    EXPECT_EQ(line.search, 1);
    if (line.state == "candidate") {
      EXPECT_LT(*line.measured_ms, 60);
    }
    verdicts += line.state == "verdict";
  }
  EXPECT_EQ(verdicts, 1);
}

TEST(Autotuner, ANewPatternStartsFromTheBestSoFar) {
  TuningParameters defaults = kDefaults;
  defaults.linger = milliseconds(100);
  World world({.noise = 0.02}, 7, defaults);
  world.search();
  const TuningParameters best = world.parameters();
  ASSERT_NE(best, defaults);
  world.program.tensors = 48;  // another model
  world.steps(20);
  EXPECT_EQ(world.parameters(), best);
  world.steps(kLong);
  EXPECT_EQ(world.last("verdict").pattern, 2);
  EXPECT_LE(World::step_time(world.program, world.parameters()),
            World::step_time(world.program, best) * 1.001);
}

TEST(Autotuner, SearchesAgainWhenStepsDriftAndNotForEver) {
  World world({.apart = 0, .per_plan = 200e-6, .noise = 0.02}, 8, kDefaults,
              {.steps_per_sample = 4, .candidates = 1});
  world.steps(kLong);
  EXPECT_EQ(world.count("drift"), 0);
  world.program.per_plan = 0;  // now tensors alone cost nothing more
  world.program.per_byte *= 3;
  world.steps(kLong);
  EXPECT_EQ(world.count("drift"), 1);
  EXPECT_EQ(world.count("verdict"), 2);
  for (int i = 0; i < 20; ++i) {
    world.program.compute = world.program.compute > 0.01 ? 1e-3 : 50e-3;
    world.steps(kLong / 10);
  }
  EXPECT_EQ(world.count("drift"), TuningSearch::kMostSearches - 1);
}

TEST(Autotuner, NumberedNamesMakeAPatternAndWhatNeverComesAgainNone) {
  auto run = [](const std::string& repeated) {
    Autotuner tuner({.warmup_samples = 1, .steps_per_sample = 2, .defaults = kDefaults},
                    [](Plan&) { return std::uint8_t{0}; }, {});
    for (int step = 0; step < 100; ++step) {
      for (const std::string& name : {repeated.empty() ? "x" + std::to_string(step) : repeated,
                                      "allreduce.noname." + std::to_string(step)})
        tuner.ready(std::make_shared<const Request>(request_for(name)), Time(milliseconds(step)));
      tuner.looked(false);
    }
    tuner.end();
    return tuner.take_news().records;
  };
  EXPECT_EQ(run("loss").front().state, "warmup");
  const std::vector<TuningRecord> none = run("");
  ASSERT_EQ(none.size(), 1u);
  EXPECT_THAT(none[0].words, HasSubstr("keeps the defaults: no allreduces of the same names came again"));
}

TEST(Autotuner, TellsWhatIsUnfinishedWhenTheJobEnds) {
  World world({.noise = 0.02}, 9, kDefaults);
  world.steps(40);
  world.end();
  EXPECT_THAT(world.last("verdict").words, HasSubstr("the job ended during the search (comparing), with "));
}

}  // namespace
}  // namespace rueda
