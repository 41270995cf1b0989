// SPDX-License-Identifier: Apache-2.0
#include "launcher/agent/rank_observer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <sstream>
#include <tuple>
#include <utility>

namespace rueda {
namespace {

constexpr auto kBetweenStates = std::chrono::seconds(1);  // of a rank without news
constexpr auto kBetweenPlans = std::chrono::seconds(1);   // they are counted all the time
constexpr auto kBetweenUsages = std::chrono::seconds(1);  // files of the system
constexpr auto kRecent = std::chrono::seconds(30);

std::int64_t nanoseconds(RankObserver::Time time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

std::uint64_t resident_bytes_of(pid_t process) {
  std::istringstream numbers(text_of_file(fmt::format("/proc/{}/statm", process)));
  std::uint64_t all = 0, resident = 0;
  numbers >> all >> resident;
  return numbers ? resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

// The name stands in parentheses and may have any letters; times are the 12th and 13th fields behind it.
double cpu_seconds_of(pid_t process) {
  const std::string text = text_of_file(fmt::format("/proc/{}/stat", process));
  const std::size_t behind = text.rfind(')');
  if (behind == std::string::npos) return 0;
  std::istringstream fields(text.substr(behind + 1));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  double user = 0, system = 0;
  fields >> user >> system;
  return fields ? (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK)) : 0;
}

}  // namespace

void RankObserver::use(SealedMemory page) {
  page_ = std::make_shared<const SealedMemory>(std::move(page));
  spans_from_ = 0;
  points_from_.clear();
  told_plans_ = {};
}

TrainingFailure RankObserver::recent_failure(Time now) const {
  TrainingFailure failure =
      (page_ ? read_training_failure(page_->bytes()) : std::nullopt).value_or(TrainingFailure());
  const std::int64_t since = nanoseconds(now - kRecent);
  if (failure.at_ns < since) failure.words.clear();
  if (failure.lost_at_ns < since) failure.lost_at_ns = 0;
  return failure;
}

void RankObserver::look(pid_t process, Time now) {
  if (has_more()) return;  // ruedarun has not taken the news before
  state_.rank = rank_;
  state_.now_ns = nanoseconds(now);
  if (process != 0 && (!usage_read_at_ || now >= *usage_read_at_ + kBetweenUsages)) {
    usage_read_at_ = now;
    state_.resident_bytes = resident_bytes_of(process);
    state_.cpu_seconds = cpu_seconds_of(process);
  }
  const auto state = [this] {
    return std::tuple(state_.step, state_.phase_since_ns, state_.failure, state_.failed_at_ns, state_.stall);
  };
  const auto before = state();
  if (process == 0) told_plans_.at.reset();  // it may have ended
  if (page_) read_page(now);
  const bool moved = has_more() || before != state();
  is_new_ = moved || !told_at_ || (process != 0 && now >= *told_at_ + kBetweenStates);
  if (is_new_) told_at_ = now;
}

void RankObserver::note_routes(const std::vector<CountedRoute>& routes, Time now) {
  if (told_plans_.at && now < *told_plans_.at + kBetweenPlans) return;
  told_plans_.at = now;
  for (const CountedRoute& route : routes) {
    if (route.number >= told_plans_.counts.size()) told_plans_.counts.resize(route.number + 1);
    if (std::exchange(told_plans_.counts[route.number], route.count.plans) != route.count.plans)
      routes_.push_back(route);
  }
}

void RankObserver::read_page(Time now) {
  const std::optional<TrainingReading> reading =
      read_training_page(page_->bytes(), spans_from_, points_from_);
  if (!reading) return;
  spans_from_ = reading->spans_written;
  state_.has_training = true;
  state_.generation = reading->generation;
  state_.generation_since_ns = reading->generation_since_ns;
  state_.step = reading->step;
  state_.total_steps = reading->total_steps;
  state_.samples_per_step = reading->samples_per_step;
  state_.phase = reading->phase;
  state_.phase_since_ns = reading->phase_since_ns;
  state_.clock_offset_ns = reading->clock_offset_ns;
  state_.settings = reading->settings;
  state_.failure = reading->failure;
  state_.failed_at_ns = reading->failed_at_ns;
  state_.stall = reading->stall;
  state_.plans_uncounted = reading->plans_uncounted;
  note_routes(reading->routes, now);
  for (const PhaseSpan& span : reading->spans)
    spans_.push_back({span.phase, span.step, span.begin_ns, span.end_ns});
  points_from_.resize(reading->curves.size());
  for (std::size_t i = 0; i < reading->curves.size(); ++i) {
    const ScalarCurve& curve = reading->curves[i];
    points_from_[i] = curve.logged;
    if (curve.points.empty()) continue;
    agents::Observed::Curve& news = curves_.emplace_back();
    news.tag = curve.tag;
    for (const ScalarPoint& point : curve.points) news.points.push_back({point.step, point.value});
    points_ += news.points.size();
  }
}

agents::Observed RankObserver::take() {
  is_new_ = false;
  agents::Observed message = state_;
  const std::size_t spans = std::min(spans_.size(), agents::kMostSpans);
  std::move(spans_.begin(), spans_.begin() + static_cast<std::ptrdiff_t>(spans),
            std::back_inserter(message.spans));
  spans_.erase(spans_.begin(), spans_.begin() + static_cast<std::ptrdiff_t>(spans));
  for (std::size_t room = agents::kMostPoints; room > 0 && !curves_.empty();) {
    agents::Observed::Curve& curve = curves_.front();
    const auto count = static_cast<std::ptrdiff_t>(std::min(room, curve.points.size()));
    agents::Observed::Curve& part = message.curves.emplace_back();
    part.tag = curve.tag;
    part.points.assign(curve.points.begin(), curve.points.begin() + count);
    curve.points.erase(curve.points.begin(), curve.points.begin() + count);
    room -= static_cast<std::size_t>(count);
    points_ -= static_cast<std::size_t>(count);
    if (curve.points.empty()) curves_.pop_front();
  }
  const std::size_t routes = std::min(routes_.size(), agents::kMostRoutes);
  std::move(routes_.begin(), routes_.begin() + static_cast<std::ptrdiff_t>(routes),
            std::back_inserter(message.routes));
  routes_.erase(routes_.begin(), routes_.begin() + static_cast<std::ptrdiff_t>(routes));
  return message;
}

}  // namespace rueda
