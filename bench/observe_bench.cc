// SPDX-License-Identifier: Apache-2.0
// What observing costs: all that the background thread tells about one tensor, by tensors in flight and
// tensors in a Plan. Time is for one tensor. The count of a Plan by its route, alone. And the marks of a
// training loop: of a step, a scalar, and a reading of 100 new spans and 10 new points with these.
#include <benchmark/benchmark.h>

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/observe/observer.h"
#include "core/observe/training/training_record.h"

namespace rueda {
namespace {

struct Step {
  std::vector<Request> requests;
  std::vector<Plan> plans;
};

Step make_step(int tensors, int tensors_in_a_plan) {
  Step step;
  for (int i = 0; i < tensors; ++i) {
    Request request;
    request.name = "bert.encoder.layer." + std::to_string(i) + ".attention.output.dense.weight";
    request.shape = {1024};
    if (i % tensors_in_a_plan == 0) step.plans.emplace_back().number = static_cast<std::uint64_t>(i);
    step.plans.back().tensors.push_back({0, true, std::make_shared<const Request>(request), 0});
    step.requests.push_back(std::move(request));
  }
  return step;
}

void observe(Observer& observer, const Step& step) {
  std::vector<Flight> flights;
  for (const Request& request : step.requests) flights.push_back(observer.submitted(request, clock_now()));
  std::size_t next = 0;
  for (const Plan& plan : step.plans) {
    observer.planned(plan, clock_now());
    for (std::size_t i = 0; i < plan.tensors.size(); ++i) observer.planned(plan, flights[next++]);
  }
  next = 0;
  for (const Plan& plan : step.plans) {
    const std::span<const Flight> carried(flights.begin() + static_cast<std::ptrdiff_t>(next),
                                          plan.tensors.size());
    observer.started(plan, clock_now());
    for (const Flight& flight : carried) observer.started(flight);
    for (std::string_view phase : {"packing tensors", "reducing around the ring", "reducing around the ring",
                                   "reducing around the ring", "unpacking tensors"})
      observer.doing(plan, phase);
    observer.finished(plan, {.route = {.between = "ring"}, .backend = "tcp", .bytes = 4096});
    for (const Flight& flight : carried) observer.completed(step.requests[next++], flight, true);
  }
}

void run(benchmark::State& state, const std::string& timeline) {
  Observer observer;
  observer.begin({0, 1, "host", 1, 0, 0, 0}, {.fusion_threshold = 64 << 20});
  if (!timeline.empty() && !observer.timeline().start(timeline, false).ok()) {
    state.SkipWithError("cannot write the timeline");
    return;
  }
  const Step step = make_step(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
  for (auto _ : state) observe(observer, step);
  state.counters["tensor"] = benchmark::Counter(static_cast<double>(state.iterations() * state.range(0)),
                                                benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.counters["lost"] = static_cast<double>(observer.timeline().lost());
}

void recorder_and_metrics(benchmark::State& state) { run(state, ""); }

void and_timeline(benchmark::State& state) {
  const std::string path = std::filesystem::temp_directory_path() / "rueda_observe_bench.json";
  run(state, path);
  std::filesystem::remove(path);
}

// All marks of a step, as a DataLoader and an optimizer make them.
void marks_of_a_step(benchmark::State& state) {
  TrainingRecord record;
  for (auto _ : state) {
    const Phase before = record.begin_phase(Phase::data);
    record.leave_phase(Phase::data, before);
    record.begin_phase(Phase::backward);
    record.begin_phase(Phase::wait);
    record.begin_phase(Phase::step);
    record.end_step();
  }
}

// A Plan in its Route; kinds take turns.
void counted_plan(benchmark::State& state) {
  TrainingRecord record;
  RouteCounter counter;
  counter.begin(record, {});
  std::uint64_t bytes = 1;
  for (auto _ : state) {
    bytes = bytes >= 1 << 20 ? 1 : bytes * 2;
    counter.count({.route = {.inside = "staged", .between = "ring"},
                   .backend = "hierarchy-tcp",
                   .tensors = 1,
                   .bytes = bytes,
                   .nanoseconds = 1000,
                   .predicted = 1000});
  }
}

void logged_scalar(benchmark::State& state) {
  TrainingRecord record;
  for (int tag = 0; tag < 10; ++tag) record.log("train/tag_" + std::to_string(tag), 0, 0);
  for (auto _ : state) record.log("train/tag_9", 0.5, -1);
}

void read_new_marks(benchmark::State& state) {
  TrainingRecord record;
  std::vector<std::uint64_t> points(10);
  std::uint64_t spans = 0;
  for (auto _ : state) {
    for (int i = 0; i < 100; ++i) record.begin_phase(i % 2 == 0 ? Phase::data : Phase::forward);
    for (int tag = 0; tag < 10; ++tag) record.log("train/tag_" + std::to_string(tag), 0.5, -1);
    const auto reading = read_training_page(record.page(), spans, points);
    spans = reading->spans_written;
    for (std::size_t i = 0; i < points.size(); ++i) points[i] = reading->curves[i].logged;
  }
}

BENCHMARK(recorder_and_metrics)->Args({1, 1})->Args({160, 1})->Args({160, 40})->UseRealTime();
BENCHMARK(and_timeline)->Args({1, 1})->Args({160, 1})->Args({160, 40})->UseRealTime();
BENCHMARK(marks_of_a_step);
BENCHMARK(counted_plan);
BENCHMARK(logged_scalar);
BENCHMARK(read_new_marks);

}  // namespace
}  // namespace rueda

BENCHMARK_MAIN();
