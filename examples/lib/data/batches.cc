// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/data/batches.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <stdexcept>

namespace rueda::examples {

// The finalizer of the splitmix64 generator, after spreading `b` by its golden-ratio step.
std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t value = a + (b + 1) * 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

std::vector<std::size_t> shuffled(std::size_t count, std::uint64_t seed) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t left = count; left > 1; --left) std::swap(order[left - 1], order[mix(seed, left) % left]);
  return order;
}

TrainingOrder::TrainingOrder(std::size_t windows, std::uint64_t seed, std::size_t batch, std::size_t ranks,
                             std::size_t passes)
    : windows_(windows), seed_(seed), batch_(batch), ranks_(ranks), passes_(passes) {
  if (windows == 0) throw std::invalid_argument("there is nothing to train on: no windows");
  if (batch == 0 || ranks == 0 || passes == 0) {
    throw std::invalid_argument("batch, ranks and backward passes must be at least 1");
  }
}

std::uint64_t TrainingOrder::first_position(std::size_t step, std::size_t pass, std::size_t rank) const {
  return ((std::uint64_t{step} * passes_ + pass) * ranks_ + rank) * batch_;
}

std::vector<std::size_t> TrainingOrder::batch(std::size_t step, std::size_t pass, std::size_t rank) const {
  const std::uint64_t begin = first_position(step, pass, rank);
  std::vector<std::size_t> chosen(batch_);
  std::uint64_t epoch = begin / windows_;
  Order order = order_of(epoch);
  for (std::size_t i = 0; i < batch_; ++i) {
    const std::uint64_t position = begin + i;
    if (position / windows_ != epoch) order = order_of(epoch = position / windows_);
    chosen[i] = (*order)[position % windows_];
  }
  return chosen;
}

// Two epochs are kept: at the end of one epoch some threads still read it while others read the next.
TrainingOrder::Order TrainingOrder::order_of(std::uint64_t epoch) const {
  const std::lock_guard lock(mutex_);
  Epoch& kept = epochs_[epoch % 2];
  if (kept.order == nullptr || kept.number != epoch) {
    kept = {epoch, std::make_shared<const std::vector<std::size_t>>(shuffled(windows_, mix(seed_, epoch)))};
  }
  return kept.order;
}

std::vector<std::vector<std::size_t>> evaluation_batches(std::span<const Feature> features,
                                                         std::size_t size) {
  struct Group {
    std::size_t longest = 0;
    std::vector<std::size_t> windows;
  };
  std::map<std::size_t, Group> by_question;
  for (std::size_t i = 0; i < features.size(); ++i) {
    Group& group = by_question[features[i].question];
    group.longest = std::max(group.longest, features[i].input_ids.size());
    group.windows.push_back(i);
  }
  std::vector<Group> groups;
  for (auto& [question, group] : by_question) groups.push_back(std::move(group));
  // Longest first: the last batches are short, so that ranks finish close together.
  std::ranges::stable_sort(groups, std::ranges::greater{}, &Group::longest);

  std::vector<std::vector<std::size_t>> batches;
  for (const Group& group : groups) {
    if (batches.empty() || batches.back().size() + group.windows.size() > size) batches.emplace_back();
    batches.back().insert(batches.back().end(), group.windows.begin(), group.windows.end());
  }
  return batches;
}

PaddedBatch pad(std::span<const Feature* const> rows, std::int32_t pad_id) {
  PaddedBatch batch;
  batch.rows = static_cast<std::int64_t>(rows.size());
  for (const Feature* feature : rows)
    batch.columns = std::max(batch.columns, static_cast<std::int64_t>(feature->input_ids.size()));
  const auto cells = static_cast<std::size_t>(batch.rows * batch.columns);
  batch.input_ids.assign(cells, pad_id);
  batch.token_types.assign(cells, 0);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const Feature& feature = *rows[row];
    const auto offset = static_cast<std::ptrdiff_t>(row) * batch.columns;
    std::ranges::copy(feature.input_ids, batch.input_ids.begin() + offset);
    std::ranges::copy(feature.token_types, batch.token_types.begin() + offset);
    batch.lengths.push_back(static_cast<std::int64_t>(feature.input_ids.size()));
    batch.starts.push_back(feature.start);
    batch.ends.push_back(feature.end);
  }
  return batch;
}

PaddedBatch pad(std::span<const Feature> features, std::span<const std::size_t> chosen, std::int32_t pad_id) {
  std::vector<const Feature*> rows;
  for (const std::size_t index : chosen) rows.push_back(&features[index]);
  return pad(rows, pad_id);
}

}  // namespace rueda::examples
