// SPDX-License-Identifier: Apache-2.0
#include "rueda/torch/elastic/sampler.h"

#include <ATen/ops/tensor.h>
#include <fmt/format.h>
#include <torch/serialize/archive.h>

#include <algorithm>
#include <numeric>

#include "core/base/error.h"
#include "frameworks/torch/data/permutation.h"
#include "rueda/rueda.h"

namespace rueda::elastic {

// Common to all copies of a Sampler.
struct Sampler::Division {
  std::size_t size;
  SamplerOptions options;
  Position position = {};
  std::vector<std::size_t> order = {};    // of all samples in this epoch
  std::vector<std::size_t> indices = {};  // of this rank
  std::size_t begun = 0;                  // how many of them next() has returned
  Rank ranks = 1;                         // among which the samples are divided
};

Sampler::Sampler(std::size_t size, const SamplerOptions& options)
    : division_(std::make_shared<Division>(Division{size, options})) {
  draw_order();
  reset();
}

void Sampler::draw_order() {
  Division& now = *division_;
  if (now.options.shuffle) {
    now.order = permutation(now.size, now.options.seed, now.position.epoch);
  } else {
    now.order.resize(now.size);
    std::iota(now.order.begin(), now.order.end(), std::size_t{0});
  }
}

void Sampler::set_epoch(std::size_t epoch) { go_to({epoch, 0}); }

void Sampler::record_batch(std::size_t batch_size) {
  division_->position.processed += batch_size * static_cast<std::size_t>(division_->ranks);
}

void Sampler::reset(std::optional<std::size_t> new_size) {
  if (new_size && *new_size != division_->size) {
    division_->size = *new_size;
    draw_order();
  }
  if (is_initialized())
    divide(rank(), rueda::size());
  else
    divide(0, 1);
}

void Sampler::divide(Rank rank, Rank ranks) {
  if (rank < 0 || rank >= ranks)
    refuse(fmt::format("elastic::Sampler: rank {} is none of {} ranks, which count from 0", rank, ranks));
  Division& now = *division_;
  const std::size_t read = std::min(now.position.processed, now.size), left = now.size - read;
  const auto first = static_cast<std::size_t>(rank), step = static_cast<std::size_t>(ranks);
  now.ranks = ranks;
  now.begun = 0;
  now.indices.resize((left + step - 1) / step);
  for (std::size_t i = 0; i < now.indices.size(); ++i)
    now.indices[i] = now.order[read + (first + i * step) % left];
}

std::optional<std::vector<std::size_t>> Sampler::next(std::size_t batch_size) {
  Division& now = *division_;
  const std::size_t count = std::min(batch_size, now.indices.size() - now.begun);
  if (count == 0) return std::nullopt;
  const auto first = now.indices.begin() + static_cast<std::ptrdiff_t>(now.begun);
  now.begun += count;
  return std::vector<std::size_t>(first, first + static_cast<std::ptrdiff_t>(count));
}

void Sampler::save(torch::serialize::OutputArchive& archive) const {
  archive.write("epoch", at::tensor(static_cast<std::int64_t>(position().epoch)), true);
  archive.write("processed", at::tensor(static_cast<std::int64_t>(position().processed)), true);
}

void Sampler::load(torch::serialize::InputArchive& archive) {
  at::Tensor epoch, processed;
  archive.read("epoch", epoch, true);
  archive.read("processed", processed, true);
  go_to({static_cast<std::size_t>(epoch.item<std::int64_t>()),
         static_cast<std::size_t>(processed.item<std::int64_t>())});
}

Sampler::Position Sampler::position() const { return division_->position; }

void Sampler::go_to(const Position& position) {
  const bool other_epoch = position.epoch != division_->position.epoch;
  division_->position = position;
  if (other_epoch) draw_order();
  reset();
}

const std::vector<std::size_t>& Sampler::indices() const { return division_->indices; }

}  // namespace rueda::elastic
