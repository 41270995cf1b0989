// SPDX-License-Identifier: Apache-2.0
#include "ops/shm/staged_adasum.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "ops/buffers/contiguous_copy.h"
#include "ops/collectives/adasum.h"

namespace rueda::staged_adasum {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kMostMembers = SegmentContents::kBufferBytes / 1024;  // pieces of some lines

std::size_t quotient_up(std::size_t count, std::size_t divisor) { return (count + divisor - 1) / divisor; }

// Where the chunks of a Plan begin, and how much is in them.
struct Cut {
  std::size_t piece = 0;           // elements of one rank's share, of a rank's vector
  std::size_t numbers = 0;         // of a level
  std::size_t result = 0;          // elements of the result's share
  std::vector<std::size_t> level;  // the first chunk of each, and of the result
  std::size_t chunks = 0;

  Cut(const Plan& plan, const std::vector<std::vector<AdasumPair>>& levels, std::size_t members,
      std::size_t longest) {
    const std::size_t bytes = StagedWork::chunk_bytes(plan.chunk_bytes), size = size_of(plan.dtype);
    piece = std::max(bytes / members / kLine, std::size_t{1}) * kLine / size;
    numbers = bytes / sizeof(double);
    result = bytes / size;
    chunks = quotient_up(longest, piece);
    for (const std::vector<AdasumPair>& pairs : levels) {
      level.push_back(chunks);
      chunks += quotient_up(AdasumShare::numbers(plan, pairs.size()), numbers);
    }
    level.push_back(chunks);
    chunks += quotient_up(longest, result);
  }
};

// Of the first rank, which gets what is left over of each tensor.
std::size_t longest_share(const Plan& plan, std::size_t members) {
  return static_cast<std::size_t>(TensorSegments(plan, 0, static_cast<Rank>(members)).elements());
}

class StagedAdasum final : public StagedWork {
 public:
  StagedAdasum(const Plan& plan, std::span<Entry> entries, const WorkPlace& place, const Memory& memory)
      : StagedWork(plan.number, place),
        memory_(memory),
        size_(size_of(plan.dtype)),
        share_(plan, static_cast<Rank>(this->place()), static_cast<Rank>(members())),
        cut_(plan, adasum_levels(static_cast<Rank>(members())), members(), longest_share(plan, members())),
        of_ranks_(members()) {
    set_chunks(cut_.chunks);
    for (std::size_t member = 0; member < members(); ++member) {
      given_.emplace_back(plan, static_cast<Rank>(member), static_cast<Rank>(members()));
      elements_.push_back(static_cast<std::size_t>(given_.back().elements()));
    }
    got_ = given_;
    for (Entry& entry : entries) {
      inputs_.emplace_back(entry.submission().input, memory);
      outputs_.emplace_back(entry.submission().output, memory);
    }
  }

 private:
  bool prepare() override {
    share_.prepare(memory_);
    for (; prepared_ < inputs_.size(); ++prepared_) {
      outputs_[prepared_].prepare();
      if (inputs_[prepared_].advance()) return true;
    }
    return false;
  }

  // A level's products need those of the level before, or the whole share; the result all of them.
  Ready ready(std::size_t chunk) override {
    if (chunk < cut_.level.front()) return Ready::yes;
    const std::size_t level = level_of(chunk);
    if (taken_ < cut_.level[level]) return Ready::waiting;
    if (share_.level() < level) {
      share_.combine();
      return Ready::working;
    }
    return level < share_.levels() && share_.multiply() ? Ready::working : Ready::yes;
  }

  void pack(std::size_t chunk, std::byte* buffer) override {
    if (chunk < cut_.level.front()) return pack_vectors(chunk, buffer);
    const std::size_t level = level_of(chunk);
    if (level < share_.levels()) {
      const Range range = range_of(chunk - cut_.level[level], cut_.numbers, share_.numbers(level));
      std::memcpy(buffer, share_.data() + range.begin, range.count * sizeof(double));
    } else {
      const Range range = range_of(chunk - cut_.level[level], cut_.result, elements_[place()]);
      share_.store(buffer, static_cast<std::int64_t>(range.begin), static_cast<std::int64_t>(range.count));
    }
  }

  void take(std::size_t chunk, std::span<std::byte* const> buffers) override {
    taken_ = chunk + 1;
    if (chunk < cut_.level.front()) return take_vectors(chunk, buffers);
    const std::size_t level = level_of(chunk), number = chunk - cut_.level[level];
    level < share_.levels() ? take_numbers(range_of(number, cut_.numbers, share_.numbers(level)), buffers)
                            : take_result(number, buffers);
  }

  void unpack(std::size_t, const std::byte*) override {}

  bool put_in_places() override {
    for (; placed_ < outputs_.size(); ++placed_) {
      if (outputs_[placed_].advance()) return true;
    }
    return false;
  }

  struct Range {
    std::size_t begin = 0;
    std::size_t count = 0;
  };
  // Of something that is `whole`, cut in pieces of `size`.
  static Range range_of(std::size_t number, std::size_t size, std::size_t whole) {
    const std::size_t begin = std::min(number * size, whole);
    return {begin, std::min(size, whole - begin)};
  }

  // The last level that begins at or before a chunk.
  std::size_t level_of(std::size_t chunk) const {
    return static_cast<std::size_t>(std::ranges::upper_bound(cut_.level, chunk) - cut_.level.begin()) - 1;
  }

  void pack_vectors(std::size_t chunk, std::byte* buffer) {
    for (std::size_t member = 0; member < members(); ++member) {
      std::byte* to = buffer + member * cut_.piece * size_;
      walk(given_[member], range_of(chunk, cut_.piece, elements_[member]).count,
           [&](std::size_t tensor, std::size_t offset, std::size_t done, std::size_t bytes) {
             kernels::copy_bytes(to + done, inputs_[tensor].data() + offset, bytes);
           });
    }
  }

  void take_vectors(std::size_t chunk, std::span<std::byte* const> buffers) {
    const Range range = range_of(chunk, cut_.piece, elements_[place()]);
    for (std::size_t member = 0; member < members(); ++member) {
      share_.load(static_cast<Rank>(member), static_cast<std::int64_t>(range.begin),
                  buffers[member] + place() * cut_.piece * size_, static_cast<std::int64_t>(range.count));
    }
  }

  void take_numbers(Range range, std::span<std::byte* const> buffers) {
    for (std::size_t i = 0; i < range.count; ++i) {
      for (std::size_t member = 0; member < members(); ++member)
        std::memcpy(&of_ranks_[member], buffers[member] + i * sizeof(double), sizeof(double));
      share_.data()[range.begin + i] = tree_sum(of_ranks_);
    }
  }

  void take_result(std::size_t number, std::span<std::byte* const> buffers) {
    for (std::size_t member = 0; member < members(); ++member) {
      walk(got_[member], range_of(number, cut_.result, elements_[member]).count,
           [&](std::size_t tensor, std::size_t offset, std::size_t done, std::size_t bytes) {
             kernels::copy_bytes(outputs_[tensor].data() + offset, buffers[member] + done, bytes);
           });
    }
  }

  // Calls visit(tensor, offset in it, bytes before, bytes) for the next elements of a share.
  template <class Visit>
  void walk(TensorSegments& parts, std::size_t elements, Visit visit) const {
    for (std::size_t done = 0; done < elements;) {
      const TensorSegments::Part part = parts.next(static_cast<std::int64_t>(elements - done));
      visit(part.tensor, static_cast<std::size_t>(part.begin) * size_, done * size_,
            static_cast<std::size_t>(part.count) * size_);
      done += static_cast<std::size_t>(part.count);
    }
  }

  const Memory& memory_;
  const std::size_t size_;  // bytes of an element
  AdasumShare share_;
  const Cut cut_;
  std::vector<double> of_ranks_;       // one number of each
  std::vector<std::size_t> elements_;  // of each member's share
  std::vector<TensorSegments> given_;  // how far the members' shares have been packed
  std::vector<TensorSegments> got_;    // and those of the result taken
  std::vector<ContiguousInput> inputs_;
  std::vector<ContiguousOutput> outputs_;
  std::size_t prepared_ = 0;  // entries
  std::size_t placed_ = 0;
  std::size_t taken_ = 0;  // chunks
};

}  // namespace

bool fits(const Plan& plan) {
  if (plan.operation != Operation::allreduce || plan.reduce_op != ReduceOp::adasum || !plan.members)
    return false;
  const auto members = static_cast<std::size_t>(plan.members->count());
  if (members > kMostMembers) return false;
  const Cut cut(plan, adasum_levels(static_cast<Rank>(members)), members, longest_share(plan, members));
  return cut.chunks < StagedWork::kMostChunks;
}

std::unique_ptr<Work> start(const Plan& plan, std::span<Entry> entries, const WorkPlace& place,
                            const Memory& memory) {
  return std::make_unique<StagedAdasum>(plan, entries, place, memory);
}

}  // namespace rueda::staged_adasum
