// SPDX-License-Identifier: Apache-2.0
#include "ops/hierarchy/hierarchy_exchange.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "ops/algorithms/passes/relay.h"
#include "ops/algorithms/reducescatter.h"
#include "ops/algorithms/ring_allreduce.h"
#include "ops/hierarchy/hierarchy_allgather.h"
#include "ops/hierarchy/hierarchy_exchange_work.h"
#include "ops/shm/reduce_to_all.h"

namespace rueda::hierarchy_exchange {
namespace {

// A chunk has a piece of some lines for each.
constexpr std::size_t kMostRuns = SegmentContents::kBufferBytes / 1024;

// Of a Reducescatter: the shares of members in that order, and the piece of each in a chunk.
struct Shares {
  std::vector<std::size_t> begins;  // in the input
  std::vector<std::size_t> lengths;
  std::size_t piece = 0;

  Shares(const Plan& plan, const HostGroups& groups) {
    const Request& request = *plan.tensors.front().request;
    const std::size_t row = row_bytes(request);
    const std::int64_t rows = request.shape.front();
    const auto size = static_cast<std::int64_t>(plan.members->count());
    for (Rank member : groups.all()) {
      const Rank index = plan.members->index_of(member);
      const std::int64_t before = rows / size * index + std::min<std::int64_t>(index, rows % size);
      begins.push_back(static_cast<std::size_t>(before) * row);
      lengths.push_back(static_cast<std::size_t>(share_of_rows(rows, index, plan.members->count())) * row);
    }
    piece = Regions::piece_for(StagedWork::chunk_bytes(plan.chunk_bytes), lengths.size(), longest());
  }
  std::size_t longest() const { return std::ranges::max(lengths); }
};

class Broadcast final : public HierarchyExchange {
 public:
  Broadcast(const Plan& plan, Entry& entry, const HostContext& context)
      : HierarchyExchange(plan, entry, context, slices_of(plan, *context.groups, context.most_slices)),
        output_(entry.submission().output, memory()),
        bytes_(static_cast<std::size_t>(entry.submission().output.bytes())),
        root_host_(groups().host_of(plan.root)),
        root_index_(groups().index_of(plan.root)) {
    const std::size_t piece = Regions::piece_for(chunk_bytes(plan.chunk_bytes), 1, bytes_);
    regions_ = Regions({bytes_}, piece, slices().count());
    set_chunks(regions_.chunks());
  }

 private:
  static constexpr std::size_t kShort = std::size_t{64} << 10;      // goes by a tree
  static constexpr std::int64_t kMessage = std::int64_t{32} << 10;  // so that hosts pass on early

  bool is_root() const { return host() == root_host_ && index() == root_index_; }
  bool prepare() override {
    output_.prepare();
    return is_root() && HierarchyExchange::prepare();
  }
  void pack(std::size_t chunk, std::byte* buffer) override {
    if (!is_root()) return;
    for (std::size_t slice = 0; slice < slices().count(); ++slice) {
      const Run part = regions_.part(chunk, slice, 0);
      const std::byte* from = input_.data() + part.begin;
      kernels::copy_bytes(buffer + regions_.offsets(chunk, slice).front(), from, part.size());
      if (output_.data() != input_.data())
        kernels::copy_bytes(output_.data() + part.begin, from, part.size());
    }
  }
  void collect(std::size_t chunk, std::span<std::byte* const> buffers) override {
    if (host() != root_host_ || is_root()) return;
    for_owned(chunk, [&](std::size_t slice) {
      const std::vector<std::size_t> at = regions_.offsets(chunk, slice);
      kernels::copy_bytes(buffers[index()] + at[0], buffers[root_index_] + at[0], at[1] - at[0]);
    });
  }
  std::unique_ptr<Algorithm> journey_of(std::size_t chunk, std::size_t slice, const Route& route) override {
    const std::vector<std::size_t> at = regions_.offsets(chunk, slice);
    std::byte* data = route.channel->abandoned() ? nullptr : own_buffer(chunk) + at[0];
    auto relay =
        std::make_unique<Relay>(*route.channel, data, at[1] - at[0], std::min(kMessage, route.chunk_bytes));
    const Group& group = route.group;
    const auto root = static_cast<Rank>(root_host_);
    const Rank distance = (group.index - root + group.size) % group.size;
    const bool tree = bytes_ <= kShort;
    const Rank parent = tree ? distance & (distance - 1) : distance - 1;
    if (distance > 0) relay->receive_from(group.rank_at((root + parent) % group.size));
    for (Rank bit = 1; distance + bit < group.size && (tree ? (distance & bit) == 0 : bit == 1); bit *= 2)
      relay->send_to(group.rank_at((root + distance + bit) % group.size));
    return relay;
  }
  void spread(std::size_t chunk, std::span<std::byte* const> buffers) override {
    for_owned(chunk, [&](std::size_t slice) {
      const std::vector<std::size_t> at = regions_.offsets(chunk, slice);
      copy_to_others(buffers, {at[0], at[1]});
    });
  }
  void unpack(std::size_t chunk, const std::byte* buffer) override {
    for (std::size_t slice = 0; !is_root() && slice < slices().count(); ++slice) {
      const Run part = regions_.part(chunk, slice, 0);
      kernels::copy_out(output_.data() + part.begin, buffer + regions_.offsets(chunk, slice).front(),
                        part.size());
    }
  }
  bool copy_back() override { return output_.advance(); }
  std::string_view journey() const override { return "sending a broadcast between hosts"; }
  PlanRoute journeys() const override { return {.between = bytes_ <= kShort ? "tree" : "row"}; }

  ContiguousOutput output_;
  const std::size_t bytes_;
  const std::size_t root_host_;
  const std::size_t root_index_;  // on its host
};

class Reducescatter final : public HierarchyExchange {
 public:
  Reducescatter(const Plan& plan, Entry& entry, const HostContext& context)
      : HierarchyExchange(plan, entry, context, slices_of(plan, *context.groups, context.most_slices)),
        inside_(ScaledReduction::of(plan, plan.members->count())),
        between_hosts_(inside_),
        value_size_(size_of(plan.dtype)),
        sum_size_(inside_.accumulation().sum_size) {
    between_hosts_.prescale = {};
    between_hosts_.of_sums = true;
    Shares shares(plan, groups());
    begins_ = std::move(shares.begins);
    room_ = shares.piece * begins_.size() / value_size_ * sum_size_;
    own_rows_ = share_of_rows(entry.request().shape.front(),
                              plan.members->index_of(context.area.peers.rank()), plan.members->count());
    regions_ = Regions(std::move(shares.lengths), shares.piece, slices().count());
    set_chunks(regions_.chunks());
  }

 private:
  bool prepare() override {
    if (HierarchyExchange::prepare()) return true;
    if (!allocated_) output_ = allocate(own_rows_);
    allocated_ = true;
    if (sum_size_ == value_size_ || scratch_.size() > 0 || chunks() == 0) return false;
    scratch_ = memory().get("partial sums", std::min(chunks(), buffer_count()) * room_);
    std::memset(scratch_.data(), 0, scratch_.size());  // what travels is always initialised
    return false;
  }
  // Packs the slices that other members combine; this rank's own slices are read from the input.
  void pack(std::size_t chunk, std::byte* buffer) override {
    for_others(chunk, [&](std::size_t slice) {
      const std::vector<std::size_t> at = regions_.offsets(chunk, slice);
      for (std::size_t run = 0; run < begins_.size(); ++run)
        kernels::copy_bytes(buffer + at[run], input_at(chunk, slice, run), at[run + 1] - at[run]);
    });
  }
  void collect(std::size_t chunk, std::span<std::byte* const> buffers) override {
    for_owned(chunk, [&](std::size_t slice) {
      const std::vector<std::size_t> at = regions_.offsets(chunk, slice);
      for (std::size_t run = 0; run < begins_.size(); ++run) {
        sources_.clear();
        for (const std::byte* buffer : buffers) sources_.push_back(buffer + at[run]);
        sources_[index()] = input_at(chunk, slice, run);
        sum_up(inside_, sources_, sums_at(chunk, at[run]), (at[run + 1] - at[run]) / value_size_);
      }
    });
  }
  std::unique_ptr<Algorithm> journey_of(std::size_t chunk, std::size_t slice, const Route& route) override {
    const std::vector<std::size_t> at = regions_.offsets(chunk, slice);
    std::vector<std::int64_t> bounds{0};  // of the hosts' parts, in elements of the slice
    std::size_t run = 0;
    for (const std::vector<Rank>& members : groups().hosts) {
      run += members.size();
      bounds.push_back(static_cast<std::int64_t>((at[run] - at[0]) / value_size_));
    }
    RingPass::Job job = ring_job(route, between_hosts_, std::move(bounds));
    job.schedule.gathers = false;
    if (!route.channel->abandoned()) {
      job.input = sums_at(chunk, at[0]);
      job.output = own_buffer(chunk) + at[number_of(0)];
    }
    job.output_origin = job.schedule.bounds[host()];
    return std::make_unique<RingPass>(std::move(job));
  }
  void spread(std::size_t chunk, std::span<std::byte* const> buffers) override {
    for_owned(chunk, [&](std::size_t slice) {
      const std::vector<std::size_t> at = regions_.offsets(chunk, slice);
      for (std::size_t member = 0; member < members(); ++member) {
        const Run part{at[number_of(member)], at[number_of(member) + 1]};
        if (member != index())
          kernels::copy_bytes(buffers[member] + part.begin, buffers[index()] + part.begin, part.size());
      }
    });
  }
  void unpack(std::size_t chunk, const std::byte* buffer) override {
    for (std::size_t slice = 0; slice < slices().count(); ++slice) {
      const Run part = regions_.part(chunk, slice, number_of(index()));
      const std::byte* from = buffer + regions_.offsets(chunk, slice)[number_of(index())];
      kernels::copy_out(output_ + part.begin, from, part.size());
    }
  }
  std::string_view journey() const override { return "reducing between hosts"; }
  PlanRoute journeys() const override { return {.between = "ring", .sent_as = between_hosts_.compression}; }

  const std::byte* input_at(std::size_t chunk, std::size_t slice, std::size_t run) const {
    return input_.data() + begins_[run] + regions_.part(chunk, slice, run).begin;
  }
  std::byte* sums_at(std::size_t chunk, std::size_t offset) {
    if (sum_size_ == value_size_) return own_buffer(chunk) + offset;
    return scratch_.data() + chunk % buffer_count() * room_ + offset / value_size_ * sum_size_;
  }

  const ScaledReduction inside_;
  ScaledReduction between_hosts_;
  const std::size_t value_size_;
  const std::size_t sum_size_;
  std::vector<std::size_t> begins_;  // of the shares, in the input
  std::size_t room_ = 0;             // bytes of a chunk's partial sums
  std::int64_t own_rows_ = 0;
  std::vector<const std::byte*> sources_;
  std::byte* output_ = nullptr;
  bool allocated_ = false;
};

}  // namespace

bool fits(const Plan& plan, const HostGroups& groups) {
  if (plan.tensors.size() != 1) return false;
  const auto members = static_cast<std::size_t>(plan.members->count());
  const auto few_chunks = [](std::size_t bytes, std::size_t piece) {
    return bytes / piece < StagedWork::kMostChunks / 2;
  };
  if (plan.operation == Operation::reducescatter) {
    if (plan.reduction_order == ReductionOrder::fixed || members > kMostRuns) return false;
    const Shares shares(plan, groups);
    return few_chunks(shares.longest(), shares.piece);
  }
  if (plan.operation == Operation::allgather)
    return groups.hosts.size() <= kMostRuns &&
           members * sizeof(std::int64_t) <= SegmentContents::kBufferBytes;
  const auto bytes = static_cast<std::size_t>(plan.tensors.front().elements()) *
                     size_of(plan.tensors.front().request->dtype);
  return plan.operation == Operation::broadcast &&
         few_chunks(bytes, Regions::piece_for(StagedWork::chunk_bytes(plan.chunk_bytes), 1, bytes));
}

Slices slices_of(const Plan& plan, const HostGroups& groups, std::size_t most) {
  const std::size_t chunk = StagedWork::chunk_bytes(plan.chunk_bytes);
  std::size_t total = chunk;  // of an allgather nobody knows yet
  if (plan.operation == Operation::reducescatter) {
    const Shares shares(plan, groups);
    total = shares.longest() * shares.lengths.size();
    return {groups, shares.piece * shares.lengths.size(), total, most};
  }
  if (plan.operation == Operation::broadcast)
    total = static_cast<std::size_t>(plan.tensors.front().elements()) *
            size_of(plan.tensors.front().request->dtype);
  return {groups, chunk, total, most};
}

std::unique_ptr<Work> start(const Plan& plan, Entry& entry, const HostContext& context) {
  switch (plan.operation) {
    case Operation::allgather:
      return hierarchy_allgather::start(plan, entry, context,
                                        slices_of(plan, *context.groups, context.most_slices));
    case Operation::broadcast: return std::make_unique<Broadcast>(plan, entry, context);
    case Operation::reducescatter: return std::make_unique<Reducescatter>(plan, entry, context);
    case Operation::allreduce:
    case Operation::alltoall:
    case Operation::reduce:
    case Operation::gather:
    case Operation::scatter:
    case Operation::message:
    case Operation::barrier:
    case Operation::join:
    case Operation::add_process_set:
    case Operation::remove_process_set: break;
  }
  return nullptr;
}

}  // namespace rueda::hierarchy_exchange
