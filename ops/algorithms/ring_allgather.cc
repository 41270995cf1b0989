// SPDX-License-Identifier: Apache-2.0
#include "ops/algorithms/ring_allgather.h"

#include <numeric>
#include <utility>
#include <vector>

#include "ops/algorithms/ring_allreduce.h"
#include "ops/kernels/pack.h"

namespace rueda {
namespace {

// Purpose: the two passes, one after the other.
class RingAllgather final : public Algorithm {
 public:
  RingAllgather(const Route& route, Entry& entry) : route_(route), entry_(entry), rows_(route.group.size) {
    rows_[route.group.index] = entry.request().shape.front();
    std::vector<std::int64_t> bounds(rows_.size() + 1);
    for (std::size_t i = 0; i < bounds.size(); ++i)
      bounds[i] = static_cast<std::int64_t>(i * sizeof(std::int64_t));
    pass_ = gather(route.sizes, std::move(bounds), reinterpret_cast<std::byte*>(rows_.data()));
  }

  Step step() override {
    if (!route_.channel->abandoned() && packing_.advance() > 0) return Step::again;
    const Step step = pass_->step();
    if (step != Step::done || sized_) return step;
    start_rows();
    return Step::again;
  }

  std::string_view phase() const override {
    return sized_ ? "gathering around the ring" : "exchanging sizes";
  }

 private:
  // Bytes, so that one schedule serves every dtype.
  std::unique_ptr<RingPass> gather(Channel* channel, std::vector<std::int64_t> bounds, std::byte* output) {
    RingPass::Job job = ring_job(route_, ScaledReduction{.dtype = DataType::uint8}, std::move(bounds));
    job.channel = channel;
    job.schedule.reduces = false;
    job.output = output;
    return std::make_unique<RingPass>(std::move(job));
  }

  void start_rows() {
    Shape shape = entry_.request().shape;
    const auto row_bytes =
        row_element_count(shape) * static_cast<std::int64_t>(size_of(entry_.request().dtype));
    std::vector<std::int64_t> bounds{0};
    for (std::int64_t rows : rows_) bounds.push_back(bounds.back() + rows * row_bytes);
    shape.front() = std::accumulate(rows_.begin(), rows_.end(), std::int64_t{0});
    std::byte* output = nullptr;
    if (!route_.channel->abandoned()) {
      output = static_cast<std::byte*>(allocate_output(entry_, shape).data);
      if (entry_.submission().input.elements() > 0)
        packing_ = kernels::Packing::pack(output + bounds[route_.group.index], entry_.submission().input);
    }
    pass_ = gather(route_.channel, std::move(bounds), output);
    sized_ = true;
  }

  Route route_;
  Entry& entry_;
  std::vector<std::int64_t> rows_;
  kernels::Packing packing_;  // of the own rows, before they go round
  std::unique_ptr<RingPass> pass_;
  bool sized_ = false;
};

}  // namespace

std::unique_ptr<Algorithm> ring_allgather(const Route& route, Entry& entry) {
  return std::make_unique<RingAllgather>(route, entry);
}

}  // namespace rueda
