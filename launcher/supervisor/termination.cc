// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/termination.h"

#include <algorithm>
#include <utility>

#include "core/base/time.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;

constexpr auto kFailureGrace = 3s;
constexpr auto kFailureToKill = 1s;
constexpr auto kTerminateToKill = 700ms;
constexpr auto kKillToForce = 700ms;
constexpr auto kLastOutput = 3s;  // for agents to pass on the last output
constexpr auto kMoreOutput = 3s;  // after some of it

}  // namespace

void Ending::plan(Time terminate, Time kill) {
  if (!terminated_) terminate_at_ = earlier(terminate_at_, terminate);
  if (!killed_) kill_at_ = earlier(kill_at_, kill);
  force_at_ = earlier(force_at_, kill + kKillToForce);
}

void Ending::on_failure(Time now) { plan(now + kFailureGrace, now + kFailureGrace + kFailureToKill); }
void Ending::on_interrupt(Time now, std::chrono::seconds grace) {
  plan(now + grace, now + grace + kTerminateToKill);
}
void Ending::on_terminate(Time now) { plan(now, now + kTerminateToKill); }
void Ending::on_terminate(Time now, std::chrono::seconds grace) { plan(now, now + grace); }

void Ending::on_hurry(Time now) {
  in_a_hurry_ = true;
  plan(now, now);
}

void Ending::on_all_ended(Time now) {
  if (!has_begun()) return;
  all_ended_ = true;
  force_at_ = earlier(force_at_, now + kLastOutput);
}

void Ending::on_output(Time now) {
  if (all_ended_ && !in_a_hurry_) force_at_ = std::max<Time>(*force_at_, now + kMoreOutput);
}

Ending::Act Ending::next_act(Time now) {
  auto due = [&](std::optional<Time>& time) { return time && *time <= now; };
  if (due(terminate_at_)) {
    terminate_at_.reset();
    terminated_ = true;
    return Act::terminate;
  }
  if (due(kill_at_)) {
    kill_at_.reset();
    killed_ = true;
    return Act::kill;
  }
  if (due(force_at_)) {
    force_at_ = now + kKillToForce;  // again, until all is over
    return Act::force;
  }
  return Act::nothing;
}

std::optional<Ending::Time> Ending::next_time() const {
  std::optional<Time> next;
  for (const std::optional<Time>& time : {terminate_at_, kill_at_, force_at_})
    if (time) next = earlier(next, *time);
  return next;
}

}  // namespace rueda
