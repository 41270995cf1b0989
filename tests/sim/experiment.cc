// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/experiment.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>

#include "tests/sim/simulated_trace.h"

namespace rueda {
namespace {

Percentiles percentiles(std::vector<double>& values) {
  if (values.empty()) return {};
  auto at = [&](double share) {
    const auto index = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
    std::ranges::nth_element(values, values.begin() + index);
    return values[index];
  };
  return {at(0.5), at(0.99), at(1.0)};
}

std::vector<SharedRequest> requests_of_a_model(int tensors) {
  std::vector<SharedRequest> requests;
  for (int i = 0; i < tensors; ++i) {
    Request request;
    request.name = fmt::format("gradient.0.encoder.layer.{}.weight", i);
    request.shape = {1024};
    requests.push_back(std::make_shared<const Request>(std::move(request)));
  }
  return requests;
}

// Purpose: carries an Experiment out, step by step.
class Laboratory {
 public:
  explicit Laboratory(const Experiment& experiment)
      : experiment_(experiment),
        network_(experiment.shape),
        random_(experiment.seed),
        requests_(requests_of_a_model(experiment.tensors)) {
    if (!experiment.trace.empty()) trace_.emplace(experiment.trace, experiment.shape, experiment.trace_ranks);
  }

  Result run();

 private:
  double begin_step();
  std::vector<double> finish_step(double last_ready);
  std::vector<double> run_step() { return finish_step(begin_step()); }
  std::vector<Rank> some_ranks(int count);
  void lose_ranks(Result& result);

  const Experiment& experiment_;
  SimulatedNetwork network_;
  std::mt19937 random_;
  const std::vector<SharedRequest> requests_;
  std::optional<SimulatedTrace> trace_;
  double began_ = 0;   // of the last step
  double length_ = 0;  // of the last step: until the last rank was told
};

// Different ones.
std::vector<Rank> Laboratory::some_ranks(int count) {
  std::set<Rank> chosen;
  std::uniform_int_distribution<Rank> any(0, network_.size() - 1);
  while (chosen.size() < static_cast<std::size_t>(count)) chosen.insert(any(random_));
  return {chosen.begin(), chosen.end()};
}

// Every rank submits every tensor when it is ready. Returns when the last one will be.
double Laboratory::begin_step() {
  began_ = network_.now() + 10;
  std::uniform_real_distribution<double> skew(0, experiment_.skew);
  std::vector<double> ready(network_.size(), began_);
  for (double& time : ready) time += experiment_.skew > 0 ? skew(random_) : 0;
  for (const Rank rank : some_ranks(experiment_.stragglers)) ready[rank] += experiment_.straggler_delay;
  for (Rank rank = 0; rank < network_.size(); ++rank) {
    network_.at(ready[rank], rank, [this, rank](Negotiator& node, Time now) {
      for (const SharedRequest& request : requests_) node.submit(request, now);
      if (trace_) trace_->submitted(rank, now, requests_);
    });
  }
  return *std::ranges::max_element(ready);
}

// Each rank's delay.
std::vector<double> Laboratory::finish_step(double last_ready) {
  std::vector<int> missing(network_.size(), experiment_.tensors);
  std::vector<double> delays;
  delays.reserve(missing.size());
  network_.run([&](Rank rank, const Plan& plan, double time) {
    if (trace_) trace_->told(rank, time_of(time), plan);
    missing[rank] -= static_cast<int>(plan.tensors.size());
    if (missing[rank] == 0) delays.push_back(time - last_ready);
  });
  if (delays.size() != missing.size()) {
    throw std::runtime_error(
        fmt::format("{} of {} ranks were told everything", delays.size(), missing.size()));
  }
  length_ = last_ready + *std::ranges::max_element(delays) - began_;
  return delays;
}

// One more step, in which ranks fall silent, each at a moment of its own.
void Laboratory::lose_ranks(Result& result) {
  begin_step();
  std::uniform_real_distribution<double> moment(0, length_);
  for (const Rank rank : some_ranks(experiment_.lost)) result.losses.push_back({rank, moment(random_)});
  std::ranges::sort(result.losses, {}, &Result::Loss::after);
  for (const Result::Loss& loss : result.losses)
    network_.lose(began_ + loss.after, loss.rank, experiment_.notice, random_);
  const double first = began_ + result.losses.front().after;
  std::vector<double> known;
  std::set<std::string> reasons;
  RankSet lost;
  for (const Result::Loss& loss : result.losses) lost.add(RankSet::of(loss.rank));
  network_.run(
      [&](Rank rank, const Plan& plan, double time) {
        if (trace_) trace_->told(rank, time_of(time), plan);
      },
      [&](Rank rank, const Status& reason, double time) {
        if (trace_) trace_->failed(rank, time_of(time));
        if (lost.contains(rank)) return;  // lost a moment later
        known.push_back(time - first);
        reasons.insert(reason.message);
      });
  const auto survivors = static_cast<std::size_t>(network_.size()) - result.losses.size();
  if (known.size() != survivors)
    throw std::runtime_error(fmt::format("{} of {} survivors know of the loss", known.size(), survivors));
  result.known = percentiles(known);
  result.reasons.assign(reasons.begin(), reasons.end());
}

Result Laboratory::run() {
  Result result;
  std::vector<double> first = run_step(), cached;
  result.first = percentiles(first);
  result.first_root_bytes = network_.traffic().root_bytes;
  network_.reset_traffic();
  for (int step = 0; step < experiment_.steps; ++step) {
    const std::vector<double> delays = run_step();
    cached.insert(cached.end(), delays.begin(), delays.end());
  }
  const auto steps = static_cast<std::uint64_t>(std::max(experiment_.steps, 1));
  result.cached = percentiles(cached);
  result.root_bytes = network_.traffic().root_bytes / steps;
  result.messages = network_.traffic().messages / steps;
  result.largest_message = network_.traffic().largest_message;
  if (experiment_.lost > 0) lose_ranks(result);
  if (trace_) trace_->end();
  return result;
}

}  // namespace

Result run(const Experiment& experiment) { return Laboratory(experiment).run(); }

}  // namespace rueda
