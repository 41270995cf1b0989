// SPDX-License-Identifier: Apache-2.0
#include "rueda/torch/elastic/state.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <mutex>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/engine/runtime.h"
#include "frameworks/torch/collectives/agreement.h"
#include "frameworks/torch/elastic/source.h"
#include "rueda/torch/collectives/operations.h"

namespace rueda::elastic {
namespace {

// So many intervals in a row have one step each before a commit is light.
constexpr std::int64_t kRegularIntervals = 2;

std::vector<at::Generator> generators_in_use() {
  std::vector<at::Generator> generators{at::detail::getDefaultCPUGenerator()};
  if (!at::globalContext().hasCUDA()) return generators;
  const at::CUDAHooksInterface& cuda = at::detail::getCUDAHooks();
  const at::DeviceIndex device = cuda.getCurrentDevice();
  if (device >= 0 && cuda.hasPrimaryContext(device))
    generators.push_back(at::globalContext().defaultGenerator({at::kCUDA, device}));
  return generators;
}

std::vector<Report> gather_reports(const Report& mine, const std::string& name, const Scope& scope) {
  const at::Tensor numbers = at::tensor(
      {mine.commits, static_cast<std::int64_t>(mine.condition), std::int64_t{mine.as_committed}}, at::kLong);
  const at::Tensor all = allgather(numbers.unsqueeze(0), name, scope);
  std::vector<Report> reports;
  for (std::int64_t index = 0; index < all.size(0); ++index) {
    const at::Tensor row = all[index];
    reports.push_back({row[0].item<std::int64_t>(), static_cast<Condition>(row[1].item<std::int64_t>()),
                       row[2].item<bool>()});
  }
  return reports;
}

Condition condition_of(bool torn, bool fresh, bool ahead) {
  if (torn) return Condition::torn;
  if (fresh) return Condition::fresh;
  return ahead ? Condition::ahead : Condition::whole;
}

}  // namespace

WorkersChanged::WorkersChanged(const MembershipChange& change)
    : std::runtime_error(
          change.added ? "elastic: workers wait to join. elastic::run() lets them in."
          : change.removed
              ? "elastic: workers are lost, or are to leave. elastic::run() goes on without them."
              : "elastic: the workers of the job have changed.") {}

State::State(std::vector<std::pair<std::string, Kept>> objects) {
  for (auto& [name, kept] : objects) {
    if (std::ranges::any_of(parts_, [&](const auto& each) { return each.first == name; }))
      refuse(fmt::format("elastic::State: two objects have the name '{}'; give each its own", name));
    parts_.emplace_back(name, kept.part());
  }
  std::vector<at::Tensor> owned;
  for (const auto& [name, owner] : parts_) std::ranges::copy(owner->owned(), std::back_inserter(owned));
  for (const auto& [name, part] : parts_) part->leave_out(owned);
  keep_randomness();
}

void State::commit() {
  save();
  marks_.as_committed = true;
  check();
  check_host_updates();
  marks_.as_committed = false;
}

void State::save() {
  regular_ = steps_alone() ? regular_ + 1 : 0;
  keep(regular_ >= kRegularIntervals);
  ++commits_;
}

void State::check() const {
  for (const auto& [name, part] : parts_) part->check();
}

bool State::steps_alone() const {
  bool stepped = false;
  for (const auto& [name, part] : parts_) {
    const Stepping stepping = part->stepping();
    if (stepping == Stepping::other) return false;
    stepped |= stepping == Stepping::alone;
  }
  return stepped;
}

void State::keep(bool light) {
  for (const auto& [name, part] : parts_) light ? part->note() : part->save();
  keep_randomness();
  light_ = light;
  marks_.ahead = marks_.torn = false;
}

void State::keep_randomness() {
  random_.clear();
  for (at::Generator& each : generators_in_use()) {
    const std::lock_guard lock(each.mutex());
    random_.push_back({each, each.get_state()});
  }
}

void State::check_host_updates() {
  const std::optional<MembershipChange> change = changes_();
  if (!change || change->since == heard_at_) return;
  heard_at_ = change->since;
  throw WorkersChanged(*change);
}

// After a light commit parameters are as committed, or sync() gets them from a rank with such parameters.
void State::restore() {
  marks_.ahead =
      light_ && std::ranges::any_of(parts_, [](const auto& each) { return each.second->is_ahead(); });
  if (!light_) marks_.torn = false;
  for (const auto& [name, part] : parts_) part->restore();
  for (Randomness& each : random_) {
    const std::lock_guard lock(each.generator.mutex());
    each.generator.set_state(each.kept);
  }
  marks_.as_committed = !marks_.ahead;
}

void State::keep_uncommitted() {
  if (!marks_.as_committed) save();
}

void State::ranks_changed() {
  for (const auto& [name, part] : parts_) part->ranks_changed();
  for (const auto& callback : callbacks_) callback();
}

void State::sync(const Scope& scope) {
  std::vector<std::string> lines;
  for (const auto& [name, part] : parts_) lines.push_back(fmt::format("'{}' {}", name, part->describe()));
  const std::string name = scope.runtime().next_name("elastic_state", scope.process_set());
  check_agreement(name, "the objects of an elastic::State", lines, scope);

  const Report mine{commits_, condition_of(marks_.torn, marks_.fresh, marks_.ahead), marks_.as_committed};
  const std::vector<Report> reports = gather_reports(mine, name + ".reports", scope);
  const auto [index, needed] = choose(reports);
  marks_.as_committed = false;
  const bool divides = std::ranges::any_of(parts_, [](const auto& each) { return each.second->divides(); });
  if (!needed && !divides) return;
  const Report& best = reports[index];
  if (best.condition == Condition::ahead && scope.runtime().topology().rank == scope.rank_at(0)) {
    log(LogLevel::warning,
        "elastic: every rank had stepped after its last commit, and no copy was kept. That step stays "
        "applied, so its samples are seen twice. Commit after each step, with no operation of Rueda's "
        "between the two.");
  }
  marks_.torn |= mine.commits != best.commits || mine.condition != best.condition;
  receive(scope.rank_at(index), scope);
  marks_.fresh = false;
  keep(regular_ >= kRegularIntervals);
}

void State::receive(Rank source, const Scope& scope) {
  for (const auto& [name, part] : parts_) part->sync(source, scope);
  at::Tensor numbers = at::tensor({commits_, regular_}, at::kLong);
  broadcast_(numbers, source, scope.runtime().next_name("elastic_commits", scope.process_set()), scope);
  commits_ = numbers[0].item<std::int64_t>();
  regular_ = numbers[1].item<std::int64_t>();
}

}  // namespace rueda::elastic
