// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/sharding/recoverable_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/error.h"
#include "core/byte_exchange.h"
#include "core/observe/operations_ended.h"
#include "rueda/rueda.h"

namespace rueda {
namespace {

// A job of the default Runtime goes on after a loss only if it is elastic.
bool outlives_losses(const Runtime& runtime) {
  return is_elastic() || !is_initialized() || &runtime != &default_runtime();
}

}  // namespace

RecoverableParts::RecoverableParts(std::unique_ptr<DividedParts> parts, Rank copies, bool alone,
                                   Divide divide)
    : copies_(copies), divide_(std::move(divide)), parts_(std::move(parts)) {
  if (copies < 0)
    refuse(fmt::format("rank {}: part_copies is {}; it must be 0 or more", parts_->runtime().topology().rank,
                       copies));
  versions_.division = alone ? 0 : 1;
}

void RecoverableParts::check_divided() const {
  if (divided()) return;
  refuse(
      fmt::format("rank {}: this {} was made outside of elastic::run(), which divides it among the ranks. "
                  "Keep it in the elastic state of run(), and use it in the function that run() calls.",
                  parts_->runtime().topology().rank, parts_->subject()));
}

void RecoverableParts::begin_step(const Groups& stepped) {
  throw_kept_back();
  check_divided();
  if (restored_) {
    refuse(
        fmt::format("restore() went back to step {} of a {}, and this rank has the parts of "
                    "step {}: call sync() of the elastic state before the next step",
                    versions_.committed, parts_->subject(), versions_.live));
  }
  try {
    parts_->begin_step(stepped);
  } catch (const Error& error) {
    due_ = recoverable_ && may_succeed_later(error);
    throw;
  }
  due_ = false;
  former_.clear();
}

void RecoverableParts::end_step(bool well) {
  versions_.live = well ? versions_.live + 1 : kTorn;
  try {
    parts_->end_step(well);
  } catch (const Error& error) {
    if (!recoverable_ || !well || !may_succeed_later(error)) throw;
    failure_ = {error.code(), error.what()};
  }
  if (!recoverable_) return;
  operations_ = operations_ended(parts_->runtime().metrics());
  changes_ = changes();
}

// A number that tells of any change of parameters by this process.
std::uint64_t RecoverableParts::changes() const {
  std::uint64_t sum = 0;
  for (const at::Tensor& parameter : parts_->parameters()) sum += parameter._version();
  return sum;
}

bool RecoverableParts::stepped_alone() const {
  if (!divided() || versions_.live != versions_.committed + 1) return false;
  try {
    return operations_ == operations_ended(parts_->runtime().metrics());
  } catch (const NotInitialized&) {  // other ranks form the job now
    return false;
  }
}

// Versions do not tell that a load has failed in its midst on some ranks: then all go back to the copy.
void RecoverableParts::begin_load(const States& states) {
  if (recoverable_ && !kept_ && versions_.live == versions_.committed) save(states);
  versions_.loading = std::exchange(versions_.live, kTorn);
}

void RecoverableParts::end_load() { versions_.live = std::max(versions_.loading, versions_.committed) + 1; }

HeldParts RecoverableParts::hold(const States& states) const {
  return {versions_.division, parts_->ranks(), versions_.live, parts_->held(states)};
}

// Before the first division the parameters are as the program has made them: others need no copy.
void RecoverableParts::save(States states) {
  note();
  if (!divided()) return;
  HeldParts& kept = kept_.emplace(hold(states));
  for (auto& [part, pieces] : kept.parts) {
    for (SavedParameter& piece : pieces) {
      piece.value = piece.value.clone();
      for (auto& [name, value] : piece.state) {
        if (value.isTensor()) value = value.toTensor().detach().clone();
      }
    }
  }
}

// The program may have changed parameters since the step: this process, or another before a barrier.
void RecoverableParts::note() {
  const bool changed = changes_ != changes() || !stepped_alone();
  if (recoverable_ && divided() && changed && failure_.ok() && versions_.live != kTorn)
    parts_->renew_copies();
  kept_.reset();
  versions_.committed = versions_.live;
  restored_ = false;
}

void RecoverableParts::agree_on_version(Rank root, Runtime& runtime) {
  versions_.is_source = runtime.topology().rank == root;
  std::int64_t version = restored_ && kept_ ? versions_.committed : versions_.live;
  std::string bytes(reinterpret_cast<const char*>(&version), sizeof version);
  broadcast_bytes(bytes, root, runtime.next_name("elastic_version", kWorld), runtime);
  std::memcpy(&versions_.target, bytes.data(), sizeof version);
}

void RecoverableParts::end_due_step() {
  due_ = false;
  ++versions_.live;
}

// A process that is new has parts of its own making: they count only if nobody has others.
std::vector<HeldParts> RecoverableParts::all_held(const States& states) const {
  std::vector<HeldParts> held = former_;
  if (kept_) held.push_back(*kept_);
  if (versions_.live != kTorn && (divided() || versions_.is_source)) held.push_back(hold(states));
  return held;
}

std::vector<SavedParameter> RecoverableParts::divide(const States& states, Runtime& runtime) {
  const std::int64_t version = versions_.target;
  const std::string name = runtime.next_name("elastic_parts", kWorld);
  std::vector<HeldParts> held = all_held(states);
  const auto holdings = gather_holdings(held, name + ".holdings", runtime);
  const Sources sources = choose_sources(holdings, version, parts_->subject());
  std::int64_t newest = 0;
  for (const auto& of_rank : holdings) {
    for (const Holding& each : of_rank) newest = std::max(newest, each.division);
  }
  const Rank copies = recoverable_ && outlives_losses(runtime) ? copies_ : 0;
  std::unique_ptr<DividedParts> divided = divide_(*parts_, copies, runtime);
  std::vector<SavedParameter> parts = divided->to_fill();
  receive_parts(held, version, sources, parts, name, runtime);
  divided->end_step(true);

  std::erase_if(held, [&](const HeldParts& each) { return each.version != version; });
  former_ = std::move(held);
  parts_ = std::move(divided);
  due_ = restored_ = false;
  failure_ = {};
  versions_.division = newest + 1;
  versions_.live = version;  // the commit that follows makes it the committed one
  return parts;
}

}  // namespace rueda
