// SPDX-License-Identifier: Apache-2.0
#include "ops/algorithms/pairwise_alltoall.h"

#include <numeric>
#include <vector>

#include "ops/algorithms/passes/pairs.h"
#include "ops/buffers/contiguous_copy.h"

namespace rueda {
namespace {

// Purpose: sizes, then rows.
class PairwiseAlltoall final : public Algorithm {
 public:
  PairwiseAlltoall(const Route& route, Entry& entry)
      : route_(route),
        entry_(entry),
        input_(entry.submission().input, *route.memory),
        to_(entry.submission().splits),
        from_(route.group.size) {
    const Rank size = route.group.size;
    if (to_.empty()) to_.assign(size, entry.request().shape.front() / size);
    from_[route.group.index] = to_[route.group.index];
    for (Rank distance = 1; distance < size; ++distance) {
      const Rank to = route.group.neighbour(distance), from = route.group.neighbour(-distance);
      sizes_.push_back(route.sizes->receive(route.group.rank_at(from),
                                            std::as_writable_bytes(std::span(&from_[from], 1))));
      sizes_.push_back(route.sizes->send(route.group.rank_at(to), std::as_bytes(std::span(&to_[to], 1))));
    }
  }

  Step step() override {
    if (!abandoned() && input_.advance()) return Step::again;
    if (!sized_) {
      while (!sizes_.empty() && sizes_.back().done()) sizes_.pop_back();
      if (!sizes_.empty()) return Step::waiting;
      start_rows();
      return Step::again;
    }
    const bool moved = !abandoned() && own_.advance() > 0;
    const Step step = pairs_.step();
    if (step == Step::done) return own_.done() || abandoned() ? Step::done : Step::again;
    return moved ? Step::again : step;
  }

  std::string_view phase() const override {
    return sized_ ? "exchanging rows with every rank" : "exchanging sizes";
  }

 private:
  bool abandoned() const { return route_.channel->abandoned(); }

  void start_rows() {
    Shape shape = entry_.request().shape;
    const auto row = static_cast<std::size_t>(row_element_count(shape)) * size_of(entry_.request().dtype);
    shape.front() = std::accumulate(from_.begin(), from_.end(), std::int64_t{0});
    auto offset = [&](const std::vector<std::int64_t>& rows, Rank index) {
      return std::accumulate(rows.begin(), rows.begin() + index, std::int64_t{0}) *
             static_cast<std::int64_t>(row);
    };
    const Group& group = route_.group;
    const std::byte* input = nullptr;
    std::byte* output = nullptr;
    if (!abandoned()) {
      input = input_.data();
      entry_.handle->received_splits = from_;
      output = static_cast<std::byte*>(allocate_output(entry_, shape).data);
      const std::int64_t own = to_[group.index] * static_cast<std::int64_t>(row);
      own_ = kernels::Packing::pack(output + offset(from_, group.index),
                                    {input + offset(to_, group.index), DataType::uint8, {own}});
    }
    sized_ = true;
    for (Rank distance = 1; distance < group.size; ++distance) {
      const Rank to = group.neighbour(distance), from = group.neighbour(-distance);
      pairs_.add({*route_.channel, group.rank_at(from), at(output, offset(from_, from)),
                  static_cast<std::size_t>(from_[from]) * row, route_.chunk_bytes},
                 {*route_.channel, group.rank_at(to), at(input, offset(to_, to)),
                  static_cast<std::size_t>(to_[to]) * row, route_.chunk_bytes});
    }
  }

  Route route_;
  Entry& entry_;
  ContiguousInput input_;
  std::vector<std::int64_t> to_;    // rows for each index
  std::vector<std::int64_t> from_;  // rows from each index
  std::vector<Transfer> sizes_;
  kernels::Packing own_;  // the rows that stay here
  Pairs pairs_;
  bool sized_ = false;
};

}  // namespace

std::unique_ptr<Algorithm> pairwise_alltoall(const Route& route, Entry& entry) {
  return std::make_unique<PairwiseAlltoall>(route, entry);
}

}  // namespace rueda
