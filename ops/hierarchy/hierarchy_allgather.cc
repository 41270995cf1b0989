// SPDX-License-Identifier: Apache-2.0
#include "ops/hierarchy/hierarchy_allgather.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "ops/algorithms/ring_allreduce.h"
#include "ops/hierarchy/hierarchy_exchange_work.h"

namespace rueda::hierarchy_allgather {
namespace {

// A pass round the ring of hosts, each of which has the bytes up to the next bound; nothing is reduced.
std::unique_ptr<Algorithm> gather(const Route& route, const std::vector<std::size_t>& bounds,
                                  std::byte* output) {
  RingPass::Job job = ring_job(route, ScaledReduction{.dtype = DataType::uint8},
                               std::vector<std::int64_t>(bounds.begin(), bounds.end()));
  job.schedule.reduces = false;
  job.output = output;
  job.output_origin = job.schedule.bounds.front();
  return std::make_unique<RingPass>(std::move(job));
}

class Allgather final : public HierarchyExchange {
 public:
  Allgather(const Plan& plan, Entry& entry, const HostContext& context, Slices slices)
      : HierarchyExchange(plan, entry, context, slices), plan_(plan), order_(groups().all()) {
    set_chunks(1);  // the numbers of rows, as the others know them
  }

 private:
  // Until the numbers are known nobody knows what is to travel.
  bool can_run_out() const override { return known_; }
  void pack(std::size_t chunk, std::byte* buffer) override {
    if (chunk == 0) {
      const std::int64_t rows = entry_.request().shape.front();
      std::memcpy(buffer + number_of(index()) * sizeof rows, &rows, sizeof rows);
      return;
    }
    const Run own = in_host_[number_of(index())];
    for (std::size_t slice = 0; slice < slices().count(); ++slice) {
      const Run part = common(regions_.part(chunk - 1, slice, host()), own);
      if (part.size() == 0) continue;
      kernels::copy_bytes(buffer + offset_of(chunk, slice, part), input_.data() + (part.begin - own.begin),
                          part.size());
    }
  }
  void collect(std::size_t chunk, std::span<std::byte* const> buffers) override {
    for_owned(chunk, [&](std::size_t slice) {
      for (std::size_t member = 0; member < members(); ++member) {
        if (member == index()) continue;
        const Run run = run_of(chunk, slice, number_of(member));
        kernels::copy_bytes(buffers[index()] + run.begin, buffers[member] + run.begin, run.size());
      }
    });
  }
  std::unique_ptr<Algorithm> journey_of(std::size_t chunk, std::size_t slice, const Route& route) override {
    const std::vector<std::size_t> bounds = bounds_of(chunk, slice);
    std::byte* output = route.channel->abandoned() ? nullptr : own_buffer(chunk) + bounds.front();
    return gather(route, bounds, output);
  }
  void spread(std::size_t chunk, std::span<std::byte* const> buffers) override {
    for_owned(chunk, [&](std::size_t slice) {
      const std::vector<std::size_t> bounds = bounds_of(chunk, slice);
      copy_to_others(buffers, {bounds.front(), bounds.back()});
    });
  }
  void unpack(std::size_t chunk, const std::byte* buffer) override {
    if (chunk == 0) return learn(buffer);
    for (std::size_t slice = 0; slice < slices().count(); ++slice) {
      const std::vector<std::size_t> bounds = bounds_of(chunk, slice);
      std::size_t number = 0;
      for (std::size_t host = 0; host < groups().hosts.size(); ++host) {
        const Run whole = regions_.part(chunk - 1, slice, host);
        for (std::size_t left = groups().hosts[host].size(); left > 0; --left, ++number) {
          const Run part = common(whole, in_host_[number]);
          const std::byte* from = buffer + bounds[host] + (part.begin - whole.begin);
          if (part.size() == 0) continue;
          kernels::copy_out(output_ + begins_[number] + (part.begin - in_host_[number].begin), from,
                            part.size());
        }
      }
    }
  }
  PlanRoute journeys() const override { return {.between = "ring"}; }
  std::string_view journey() const override {
    return known_ ? "gathering between hosts" : "exchanging sizes between hosts";
  }

  // Of a slice of a chunk: where the hosts' parts begin, and the last one ends.
  std::vector<std::size_t> bounds_of(std::size_t chunk, std::size_t slice) const {
    if (chunk > 0) return regions_.offsets(chunk - 1, slice);
    std::vector<std::size_t> bounds{0};
    for (const std::vector<Rank>& members : groups().hosts)
      bounds.push_back(bounds.back() + (slice == 0 ? members.size() * sizeof(std::int64_t) : 0));
    return bounds;
  }
  // The bytes in a slice of a chunk that a member of this host has packed.
  Run run_of(std::size_t chunk, std::size_t slice, std::size_t number) const {
    if (chunk == 0 && slice > 0) return {};
    if (chunk == 0) return {number * sizeof(std::int64_t), (number + 1) * sizeof(std::int64_t)};
    const Run part = common(regions_.part(chunk - 1, slice, host()), in_host_[number]);
    if (part.size() == 0) return {};
    const std::size_t begin = offset_of(chunk, slice, part);
    return {begin, begin + part.size()};
  }
  // Of something of this host's.
  std::size_t offset_of(std::size_t chunk, std::size_t slice, Run part) const {
    return regions_.offsets(chunk - 1, slice)[host()] +
           (part.begin - regions_.part(chunk - 1, slice, host()).begin);
  }

  void learn(const std::byte* buffer) {
    std::vector<std::int64_t> rows(order_.size());
    std::memcpy(rows.data(), buffer, rows.size() * sizeof rows.front());
    const std::size_t row = row_bytes(entry_.request());
    check(rows, row);
    std::vector<std::size_t> lengths(groups().hosts.size(), 0);  // of the hosts
    in_host_.clear();
    std::size_t number = 0;
    for (std::size_t host = 0; host < lengths.size(); ++host) {
      for (std::size_t left = groups().hosts[host].size(); left > 0; --left, ++number) {
        const std::size_t bytes = static_cast<std::size_t>(rows[number]) * row;
        in_host_.push_back({lengths[host], lengths[host] + bytes});
        lengths[host] += bytes;
      }
    }
    find_begins();
    const std::size_t piece =
        Regions::piece_for(chunk_bytes(plan_.chunk_bytes), lengths.size(), std::ranges::max(lengths));
    regions_ = Regions(std::move(lengths), piece, slices().count());
    if (regions_.chunks() >= kMostChunks)
      throw std::runtime_error(
          fmt::format("'{}' is gathered in {} chunks; at most {} are possible. Gather it in parts.",
                      entry_.request().name, regions_.chunks(), kMostChunks - 1));
    set_chunks(1 + regions_.chunks());
    known_ = true;
    if (!abandoned()) output_ = allocate(std::accumulate(rows.begin(), rows.end(), std::int64_t{0}));
  }

  // In the output stand the members' rows in the order of ranks.
  void find_begins() {
    std::vector<std::size_t> by_rank(order_.size());
    std::iota(by_rank.begin(), by_rank.end(), std::size_t{0});
    std::ranges::sort(by_rank, {}, [this](std::size_t number) { return order_[number]; });
    begins_.resize(order_.size());
    std::size_t begin = 0;
    for (std::size_t number : by_rank) {
      begins_[number] = begin;
      begin += in_host_[number].size();
    }
  }

  void check(const std::vector<std::int64_t>& rows, std::size_t row) const {
    const auto most = (std::int64_t{1} << 40) / static_cast<std::int64_t>(std::max(row, std::size_t{1}));
    for (std::size_t number = 0; number < rows.size(); ++number) {
      if (rows[number] < 0 || rows[number] > most)
        throw std::runtime_error(
            fmt::format("rank {} gives {} rows of '{}'; at most {} are possible. Are all ranks of one build?",
                        order_[number], rows[number], entry_.request().name, most));
    }
  }

  const Plan& plan_;
  const std::vector<Rank> order_;    // members, host by host; by their numbers there:
  std::vector<Run> in_host_;         // what each gives, of all that its host gives
  std::vector<std::size_t> begins_;  // and where that stands in the output
  std::byte* output_ = nullptr;
  bool known_ = false;
};

}  // namespace

std::unique_ptr<Work> start(const Plan& plan, Entry& entry, const HostContext& context, Slices slices) {
  return std::make_unique<Allgather>(plan, entry, context, slices);
}

}  // namespace rueda::hierarchy_allgather
