// SPDX-License-Identifier: Apache-2.0
#include "core/observe/recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace rueda {

void Recorder::submitted(const std::string& name, std::string_view operation) {
  std::lock_guard lock(mutex_);
  in_flight_[name] = {operation, submitted_++, false, Clock::now()};
}

void Recorder::started(const std::string& name) {
  std::lock_guard lock(mutex_);
  if (auto found = in_flight_.find(name); found != in_flight_.end()) found->second.started = true;
}

void Recorder::completed(const std::string& name, bool ok) {
  std::lock_guard lock(mutex_);
  auto found = in_flight_.find(name);
  if (found == in_flight_.end()) return;
  last_[completed_++ % kRemembered] = {name, found->second.operation, ok, Clock::now()};
  in_flight_.erase(found);
}

void Recorder::doing(std::string_view activity) {
  activity_.store(activity.data(), std::memory_order_relaxed);
}

std::string Recorder::summary() const {
  const Clock::time_point now = Clock::now();
  auto seconds = [&](Clock::time_point then) { return std::chrono::duration<double>(now - then).count(); };
  std::lock_guard lock(mutex_);
  std::string text = "has completed nothing yet";
  if (completed_ > 0) {
    const Completed& last = last_[(completed_ - 1) % kRemembered];
    text = fmt::format("last completed {} '{}' {:.1f} s ago", last.operation, last.name, seconds(last.at));
  }
  if (in_flight_.empty()) return text + "; has nothing in flight, the program is elsewhere";
  const auto& [name, state] =
      *std::ranges::min_element(in_flight_, {}, [](const auto& item) { return item.second.order; });
  return text + fmt::format("; is in {} '{}' for {:.1f} s, {}", state.operation, name, seconds(state.since),
                            state.started ? activity_.load(std::memory_order_relaxed)
                                          : "which not every rank has submitted");
}

std::string Recorder::report() const {
  constexpr std::size_t kShown = 8;
  const Clock::time_point now = Clock::now();
  auto seconds = [&](Clock::time_point then) { return std::chrono::duration<double>(now - then).count(); };
  std::lock_guard lock(mutex_);
  std::string text = fmt::format("  the coordinator is {}\n", activity_.load(std::memory_order_relaxed));
  using Item = std::pair<const std::string, InFlight>;
  std::vector<const Item*> oldest;
  for (const auto& item : in_flight_) oldest.push_back(&item);
  std::ranges::sort(oldest, {}, [](const Item* item) { return item->second.order; });
  if (oldest.empty()) text += "  nothing is in flight\n";
  for (std::size_t i = 0; i < std::min(kShown, oldest.size()); ++i) {
    const auto& [name, state] = *oldest[i];
    text += fmt::format("  in flight for {:.1f} s: {} '{}', {}\n", seconds(state.since), state.operation,
                        name, state.started ? "moving data" : "not yet submitted by every rank");
  }
  if (oldest.size() > kShown) text += fmt::format("  and {} more in flight\n", oldest.size() - kShown);
  if (completed_ == 0) text += "  nothing has completed\n";
  for (std::uint64_t i = completed_ - std::min<std::uint64_t>(completed_, 3); i < completed_; ++i) {
    const Completed& last = last_[i % kRemembered];
    text += fmt::format("  {:.1f} s ago {}: {} '{}'\n", seconds(last.at), last.ok ? "completed" : "failed",
                        last.operation, last.name);
  }
  return text;
}

}  // namespace rueda
