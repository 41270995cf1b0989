// SPDX-License-Identifier: Apache-2.0
#include "rueda/torch/data/samplers.h"

#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <torch/serialize/archive.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "core/engine/runtime.h"
#include "frameworks/torch/collectives/agreement.h"
#include "frameworks/torch/data/permutation.h"

namespace rueda {
namespace {

std::size_t index_in(const Scope& scope) {
  const Rank rank = scope.runtime().topology().rank;
  check_members(rank, scope, "a sampler");
  return static_cast<std::size_t>(scope.ranks() ? scope.ranks()->index_of(rank) : rank);
}

}  // namespace

ShardSampler::ShardSampler(std::size_t size, const Scope& scope, std::vector<std::string> lines)
    : size_(size), ranks_(static_cast<std::size_t>(scope.size())), index_(index_in(scope)) {
  lines.push_back(fmt::format("{} samples", size));
  check_agreement(scope.runtime().next_name("sampler", scope.process_set()), "a sampler's options", lines,
                  scope);
}

void ShardSampler::begin(std::size_t epoch) {
  epoch_ = epoch;
  position_ = 0;
  loaded_ = false;
  indices_ = draw();
}

std::optional<std::vector<std::size_t>> ShardSampler::next(std::size_t batch_size) {
  const std::size_t count = std::min(batch_size, indices_.size() - position_);
  loaded_ = false;
  if (count == 0) return std::nullopt;
  const auto first = indices_.begin() + static_cast<std::ptrdiff_t>(position_);
  position_ += count;
  return std::vector<std::size_t>(first, first + static_cast<std::ptrdiff_t>(count));
}

void ShardSampler::save(torch::serialize::OutputArchive& archive) const {
  const auto done = static_cast<std::int64_t>(position_ * ranks_);
  archive.write("epoch", at::tensor(static_cast<std::int64_t>(epoch_)), true);
  archive.write("position", at::tensor(done), true);
}

void ShardSampler::load(torch::serialize::InputArchive& archive) {
  at::Tensor epoch, done;
  archive.read("epoch", epoch, true);
  archive.read("position", done, true);
  begin(static_cast<std::size_t>(epoch.item<std::int64_t>()));
  const auto position = (static_cast<std::size_t>(done.item<std::int64_t>()) + ranks_ - 1) / ranks_;
  position_ = std::min(position, indices_.size());
  loaded_ = true;
}

EvaluationSampler::EvaluationSampler(std::size_t size, const Scope& scope)
    : ShardSampler(size, scope, {"an EvaluationSampler"}) {
  begin(0);
}

void EvaluationSampler::reset(std::optional<std::size_t> new_size) {
  resize(new_size);
  begin(0);
}

std::vector<std::size_t> EvaluationSampler::draw() const {
  const std::size_t share = size_ / ranks_, more = size_ % ranks_;  // the first ranks have one more
  std::vector<std::size_t> block(share + (index_ < more ? 1 : 0));
  std::iota(block.begin(), block.end(), index_ * share + std::min(index_, more));
  return block;
}

DistributedSampler::DistributedSampler(std::size_t size, const SamplerOptions& options, const Scope& scope)
    : ShardSampler(size, scope,
                   {fmt::format("a DistributedSampler with seed {}", options.seed),
                    options.remainder == Remainder::drop ? "remainder drop" : "remainder wrap"}),
      options_(options) {
  begin(0);
}

void DistributedSampler::reset(std::optional<std::size_t> new_size) {
  const bool goes_on = std::exchange(loaded_, false) && position_ < indices_.size() && !new_size;
  if (goes_on) return;
  resize(new_size);
  begin(position_ > 0 ? epoch_ + 1 : epoch_);
}

std::vector<std::size_t> DistributedSampler::draw() const {
  if (size_ < ranks_) {
    refuse(
        fmt::format("a DistributedSampler of {} samples for {} ranks: each must have one at least; take "
                    "fewer ranks, or more samples",
                    size_, ranks_));
  }
  const std::vector<std::size_t> order = permutation(size_, options_.seed, epoch_);
  const std::size_t rest = options_.remainder == Remainder::wrap && size_ % ranks_ != 0 ? 1 : 0;
  std::vector<std::size_t> own(size_ / ranks_ + rest);
  for (std::size_t i = 0; i < own.size(); ++i) own[i] = order[(i * ranks_ + index_) % size_];
  return own;
}

}  // namespace rueda
