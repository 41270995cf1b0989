// SPDX-License-Identifier: Apache-2.0
#include "ops/shm/staged_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/base/operation_traits.h"
#include "ops/algorithms/reducescatter.h"
#include "ops/buffers/contiguous_copy.h"
#include "ops/kernels/line.h"
#include "ops/shm/reduce_to_all.h"

namespace rueda::staged_exchange {
namespace {

constexpr std::size_t kMostMembers =
    SegmentContents::kBufferBytes / 1024;  // pieces of some lines, room for numbers

// Bytes [begin, end) of something.
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t bytes() const { return end - begin; }
};

// Piece number `piece`, of `size` bytes each, of something that is `whole`.
Range piece_of(Range whole, std::size_t piece, std::size_t size) {
  const std::size_t begin = std::min(whole.begin + piece * size, whole.end);
  return {begin, std::min(begin + size, whole.end)};
}

// Purpose: what these have in common: one tensor in, one out.
class Exchange : public StagedWork {
 public:
  Exchange(const Plan& plan, Entry& entry, const WorkContext& context, const Memory& memory)
      : StagedWork(plan.number, context),
        entry_(entry),
        input_(entry.submission().input, memory),
        chunk_(chunk_bytes(plan.chunk_bytes)) {}

 protected:
  bool prepare() override { return input_.advance(); }
  void unpack(std::size_t, const std::byte*) override {}
  bool copy_back() override { return false; }

  // As many chunks as `bytes` need, after `before` others; larger ones where a count could not say so many.
  void cut(std::size_t bytes, std::size_t before = 0) {
    while (bytes / chunk_ > kMostChunks / 2 && 2 * chunk_ * pieces_ <= SegmentContents::kBufferBytes)
      chunk_ *= 2;
    set_chunks(before + (bytes + chunk_ - 1) / chunk_);
  }
  // From now on chunk_ is a piece for each member.
  void cut_for_each_member() {
    pieces_ = members();
    chunk_ = std::max(chunk_ / pieces_ / kLine, std::size_t{1}) * kLine;
  }
  void pack_part(std::byte* to, const std::byte* from, std::size_t bytes) {
    stores().copy(to, from, bytes);
    moved_ += bytes;
  }
  // Copies bytes that all other members read too from a buffer into the output.
  void take_shared(std::byte* to, std::byte* from, std::size_t bytes) {
    if (members() == 2) return take_own(to, from, bytes);
    put(to, from, bytes);
  }
  // Takes bytes that only this rank reads: their lines may move here, unless more is streamed there.
  void take_own(std::byte* to, std::byte* from, std::size_t bytes) {
    if (large_ || stores().streamed()) return put(to, from, bytes);
    kernels::take_out(to, from, bytes);
    moved_ += bytes;
  }
  // Into the output.
  void put(std::byte* to, const std::byte* from, std::size_t bytes) {
    moved_ += bytes;
    if (!large_) return kernels::copy_bytes(to, from, bytes);
    kernels::copy_streamed(to, from, bytes);
    kernels::end_of_stream();
  }
  std::size_t bytes_moved() const override { return moved_; }
  std::byte* allocate(std::int64_t rows) {
    Shape shape = entry_.request().shape;
    shape.front() = rows;
    const TensorView output = allocate_output(entry_, shape);
    has_output_of(static_cast<std::size_t>(output.bytes()));
    return static_cast<std::byte*>(output.data);
  }
  void has_output_of(std::size_t bytes) { large_ = bytes >= kLarge; }

  Entry& entry_;
  ContiguousInput input_;
  std::size_t chunk_;       // bytes: of a chunk, or of each member's piece of it
  std::size_t pieces_ = 1;  // of a chunk

 private:
  // An output of so many bytes is out of all caches before its end is written: it need not pass through them.
  static constexpr std::size_t kLarge = std::size_t{8} << 20;

  std::size_t moved_ = 0;  // bytes
  bool large_ = false;
};

class Broadcast final : public Exchange {
 public:
  Broadcast(const Plan& plan, Entry& entry, const WorkContext& context, const Memory& memory)
      : Exchange(plan, entry, context, memory),
        root_(static_cast<std::size_t>(plan.members->index_of(plan.root))),
        output_(entry.submission().output, memory),
        bytes_(static_cast<std::size_t>(entry.submission().output.bytes())) {
    cut(bytes_);
    has_output_of(bytes_);
  }

 private:
  bool root() const { return index() == root_; }
  bool prepare() override {
    output_.prepare();
    return root() && Exchange::prepare();
  }
  void pack(std::size_t chunk, std::byte* buffer) override {
    if (!root()) return;
    const Range part = piece_of({0, bytes_}, chunk, chunk_);
    pack_part(buffer, input_.data() + part.begin, part.bytes());
    if (output_.data() != input_.data())
      put(output_.data() + part.begin, input_.data() + part.begin, part.bytes());
  }
  void take(std::size_t chunk, std::span<std::byte* const> buffers) override {
    if (root()) return;
    const Range part = piece_of({0, bytes_}, chunk, chunk_);
    take_shared(output_.data() + part.begin, buffers[root_], part.bytes());
  }
  bool copy_back() override { return output_.advance(); }

  const std::size_t root_;
  ContiguousOutput output_;
  const std::size_t bytes_;
};

class Reducescatter final : public Exchange {
 public:
  Reducescatter(const Plan& plan, Entry& entry, const WorkContext& context, const Memory& memory)
      : Exchange(plan, entry, context, memory),
        reduction_(ScaledReduction::of(plan, static_cast<Rank>(members()))) {
    const Request& request = entry.request();
    std::size_t offset = 0;
    for (std::size_t member = 0; member < members(); ++member) {
      rows_.push_back(
          share_of_rows(request.shape.front(), static_cast<Rank>(member), static_cast<Rank>(members())));
      const std::size_t bytes = static_cast<std::size_t>(rows_.back()) * row_bytes(request);
      shares_.push_back({offset, offset + bytes});
      offset += bytes;
    }
    cut_for_each_member();
    cut(shares_.front().bytes());
  }

 private:
  bool prepare() override {
    if (Exchange::prepare()) return true;
    if (!allocated_) output_ = allocate(rows_[index()]);
    allocated_ = true;
    return false;
  }
  void pack(std::size_t chunk, std::byte* buffer) override {
    for (std::size_t member = 0; member < members(); ++member) {
      if (member == index()) continue;  // taken where it is
      const Range part = piece_of(shares_[member], chunk, chunk_);
      pack_part(buffer + member * chunk_, input_.data() + part.begin, part.bytes());
    }
  }
  void take(std::size_t chunk, std::span<std::byte* const> buffers) override {
    const Range own = shares_[index()], part = piece_of(own, chunk, chunk_);
    sources_.clear();
    for (std::byte* buffer : buffers) sources_.push_back(buffer + index() * chunk_);
    sources_[index()] = input_.data() + part.begin;
    std::byte* output = output_ + (part.begin - own.begin);
    reduce_everywhere(reduction_, sources_, std::span(&output, 1), part.bytes() / size_of(reduction_.dtype),
                      {.streamed = stores().streamed()});
  }

  const ScaledReduction reduction_;
  std::vector<std::int64_t> rows_;  // of each member's share
  std::vector<Range> shares_;       // of the input
  std::vector<const std::byte*> sources_;
  std::byte* output_ = nullptr;
  bool allocated_ = false;
};

// Purpose: those in which ranks give different numbers of rows: chunk 0 tells them.
class Ragged : public Exchange {
 public:
  using Exchange::Exchange;

 protected:
  // `count` numbers of this rank, for all.
  void begin(std::vector<std::int64_t> numbers) {
    own_ = std::move(numbers);
    set_chunks(1);
  }
  bool timed(std::size_t chunk) const final { return chunk > 0; }
  void pack(std::size_t chunk, std::byte* buffer) final {
    if (chunk > 0) return pack_rows(chunk - 1, buffer);
    std::memcpy(buffer, own_.data(), own_.size() * sizeof own_.front());
  }
  void take(std::size_t chunk, std::span<std::byte* const> buffers) final {
    if (chunk > 0) return take_rows(chunk - 1, buffers);
    std::vector<std::vector<std::int64_t>> all;
    for (const std::byte* buffer : buffers) {
      std::memcpy(all.emplace_back(own_.size()).data(), buffer, own_.size() * sizeof own_.front());
      check(all.back());
    }
    learn(all);
  }
  virtual void learn(const std::vector<std::vector<std::int64_t>>& all) = 0;  // of each member
  virtual void pack_rows(std::size_t chunk, std::byte* buffer) = 0;
  virtual void take_rows(std::size_t chunk, std::span<std::byte* const> buffers) = 0;

 private:
  void check(const std::vector<std::int64_t>& rows) const {
    const auto most = (std::int64_t{1} << 48) /
                      static_cast<std::int64_t>(std::max(row_bytes(entry_.request()), std::size_t{1}));
    for (std::int64_t each : rows) {
      if (each < 0 || each > most)
        throw std::runtime_error(fmt::format("{} rows of '{}' are impossible. Are all ranks of one build?",
                                             each, entry_.request().name));
    }
  }

  std::vector<std::int64_t> own_;
};

class Allgather final : public Ragged {
 public:
  Allgather(const Plan& plan, Entry& entry, const WorkContext& context, const Memory& memory)
      : Ragged(plan, entry, context, memory) {
    begin({entry.request().shape.front()});
  }

 private:
  void learn(const std::vector<std::vector<std::int64_t>>& all) override {
    std::int64_t rows = 0;
    std::size_t most = 0;
    for (const auto& of_member : all) {
      const std::size_t begin = static_cast<std::size_t>(rows) * row_bytes(entry_.request());
      rows += of_member.front();
      parts_.push_back({begin, static_cast<std::size_t>(rows) * row_bytes(entry_.request())});
      most = std::max(most, parts_.back().bytes());
    }
    output_ = allocate(rows);
    cut(most, 1);
  }
  void pack_rows(std::size_t chunk, std::byte* buffer) override {
    const Range part = piece_of({0, parts_[index()].bytes()}, chunk, chunk_);
    pack_part(buffer, input_.data() + part.begin, part.bytes());
  }
  void take_rows(std::size_t chunk, std::span<std::byte* const> buffers) override {
    for (std::size_t member = 0; member < members(); ++member) {
      const Range part = piece_of(parts_[member], chunk, chunk_);
      if (member == index()) {
        put(output_ + part.begin, input_.data() + (part.begin - parts_[member].begin), part.bytes());
      } else {
        take_shared(output_ + part.begin, buffers[member], part.bytes());
      }
    }
  }

  std::vector<Range> parts_;  // of the output, by member
  std::byte* output_ = nullptr;
};

class Alltoall final : public Ragged {
 public:
  Alltoall(const Plan& plan, Entry& entry, const WorkContext& context, const Memory& memory)
      : Ragged(plan, entry, context, memory) {
    std::vector<std::int64_t> rows = entry.submission().splits;
    if (rows.empty())
      rows.assign(members(), entry.request().shape.front() / static_cast<std::int64_t>(members()));
    cut_for_each_member();
    begin(std::move(rows));
  }

 private:
  void learn(const std::vector<std::vector<std::int64_t>>& all) override {
    const std::size_t row = row_bytes(entry_.request());
    auto add = [row](std::vector<Range>& ranges, std::int64_t rows) {
      const std::size_t begin = ranges.empty() ? 0 : ranges.back().end;
      ranges.push_back({begin, begin + static_cast<std::size_t>(rows) * row});
    };
    std::vector<std::int64_t> received;
    std::int64_t most = 0;
    for (const auto& of_member : all) {
      received.push_back(of_member[index()]);
      most = std::max(most, *std::ranges::max_element(of_member));
    }
    for (std::int64_t rows : all[index()]) add(given_, rows);
    for (std::int64_t rows : received) add(got_, rows);
    const std::int64_t rows = std::accumulate(received.begin(), received.end(), std::int64_t{0});
    entry_.handle->received_splits = std::move(received);
    output_ = allocate(rows);
    cut(static_cast<std::size_t>(most) * row, 1);
  }
  void pack_rows(std::size_t chunk, std::byte* buffer) override {
    for (std::size_t member = 0; member < members(); ++member) {
      if (member == index()) continue;  // taken where it is
      const Range part = piece_of(given_[member], chunk, chunk_);
      pack_part(buffer + member * chunk_, input_.data() + part.begin, part.bytes());
    }
  }
  void take_rows(std::size_t chunk, std::span<std::byte* const> buffers) override {
    for (std::size_t member = 0; member < members(); ++member) {
      const Range part = piece_of(got_[member], chunk, chunk_);
      if (member == index()) {
        const std::size_t begin = given_[member].begin + (part.begin - got_[member].begin);
        put(output_ + part.begin, input_.data() + begin, part.bytes());
        continue;
      }
      take_own(output_ + part.begin, buffers[member] + index() * chunk_, part.bytes());
    }
  }

  std::vector<Range> given_;  // of the input, by member
  std::vector<Range> got_;    // of the output
  std::byte* output_ = nullptr;
};

}  // namespace

bool fits(const Plan& plan) {
  return (traits(plan.operation).makes_output || plan.operation == Operation::broadcast) &&
         plan.tensors.size() == 1 && plan.members &&
         static_cast<std::size_t>(plan.members->count()) <= kMostMembers;
}

std::unique_ptr<Work> start(const Plan& plan, Entry& entry, const WorkContext& context,
                            const Memory& memory) {
  switch (plan.operation) {
    case Operation::allgather: return std::make_unique<Allgather>(plan, entry, context, memory);
    case Operation::alltoall: return std::make_unique<Alltoall>(plan, entry, context, memory);
    case Operation::broadcast: {
      WorkContext of_role = context;
      if (context.peers.rank() != plan.root) of_role.stores = nullptr;  // it stores nothing for others
      return std::make_unique<Broadcast>(plan, entry, of_role, memory);
    }
    case Operation::reducescatter: return std::make_unique<Reducescatter>(plan, entry, context, memory);
    case Operation::allreduce:
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

}  // namespace rueda::staged_exchange
