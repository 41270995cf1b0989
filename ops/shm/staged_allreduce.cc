// SPDX-License-Identifier: Apache-2.0
#include "ops/shm/staged_allreduce.h"

#include <algorithm>
#include <utility>

#include "ops/shm/reduce_everywhere.h"
#include "ops/staging.h"

namespace rueda::staged_allreduce {
namespace {

using Area = SegmentContents::Area;

constexpr std::uint64_t kVoid = (std::uint64_t{1} << 24) - 1;
constexpr std::size_t kLine = 64;

std::uint64_t at(std::uint64_t plan, std::uint64_t count) { return (plan << 24) + count; }

// Of the fused buffer; a tensor alone is as long as it is.
std::int64_t bytes_of(const Plan& plan) {
  if (plan.tensors.size() > 1) return plan.buffer_bytes;
  return plan.tensors.front().elements() * static_cast<std::int64_t>(size_of(plan.dtype));
}

// Whole lines, so that slices of different ranks share none.
std::size_t chunk_of(const Plan& plan) {
  const auto wanted = static_cast<std::size_t>(plan.chunk_bytes) / kLine * kLine;
  return std::clamp(wanted, kLine, SegmentContents::kBufferBytes);
}

// Purpose: one Plan's passage through an area.
class StagedAllreduce final : public Work {
 public:
  StagedAllreduce(const Plan& plan, std::span<Entry> entries, Neighbours& neighbours, Rank rank, Use own,
                  Use last, std::size_t area, const Memory& memory)
      : plan_(plan),
        last_plan_(last.plan),
        place_(static_cast<std::size_t>(std::ranges::find(own.members, rank) - own.members.begin())),
        reduction_(ScaledReduction::of(plan, static_cast<Rank>(own.members.size()))),
        total_(static_cast<std::size_t>(bytes_of(plan))),
        chunk_(chunk_of(plan)),
        chunks_((total_ + chunk_ - 1) / chunk_) {
    for (Rank member : own.members)
      members_.push_back({&neighbours.contents(member).areas[area], &neighbours.bell(member)});
    for (Rank member : last.members) last_.push_back(&neighbours.contents(member).areas[area].progress);
    for (Entry& entry : entries) {
      inputs_.emplace_back(entry.submission.input, memory);
      outputs_.emplace_back(entry.submission.output, memory);
    }
  }

  Step step() override {
    if (!begun_) {
      if (!abandoned_ && prepare()) return Step::again;
      if (!area_is_free()) return Step::waiting;
      begun_ = true;
    }
    if (abandoned_) return give_up();
    if (unpacked_ == chunks_) return put_in_places();
    const bool moved = pack_one() | reduce_one() | unpack_one();
    if (abandoned_) return give_up();
    return moved ? Step::again : Step::waiting;
  }

  void abandon() override { abandoned_ = true; }

  std::string_view phase() const override {
    if (!begun_) return "waiting until others have left the last operation";
    if (unpacked_ == chunks_) return "unpacking tensors";
    if (packed_ == 0) return "packing tensors";
    return "reducing in shared memory";
  }

 private:
  struct Member {
    Area* area;
    Bell* bell;
  };

  Area& own() { return *members_[place_].area; }

  // Strided tensors get contiguous stand-ins first; false when all have theirs.
  bool prepare() {
    for (; prepared_ < inputs_.size(); ++prepared_) {
      outputs_[prepared_].prepare();
      if (inputs_[prepared_].advance()) return true;
    }
    return false;
  }

  bool area_is_free() {
    if (all_left()) return free();
    own().progress.wanted.store(1);
    return all_left() && free();
  }
  bool all_left() {
    while (left_ < last_.size() && last_[left_]->left.load() >= last_plan_) ++left_;
    return left_ == last_.size();
  }
  bool free() {
    if (own().progress.wanted.load(std::memory_order_relaxed) != 0) own().progress.wanted.store(0);
    return true;
  }

  // Whether all members have come to `count` by `word`, or abandoned the Plan. `known` of them have.
  bool all_have(std::atomic<std::uint64_t> Area::Progress::*word, std::uint64_t count, std::size_t& known) {
    for (; known < members_.size(); ++known) {
      const std::uint64_t value = (members_[known].area->progress.*word).load();
      if (value < at(plan_.number, count)) return false;
      if (value == at(plan_.number, kVoid)) abandoned_ = true;
    }
    known = 0;
    return true;
  }

  void say(std::atomic<std::uint64_t>& word, std::uint64_t count) {
    word.store(at(plan_.number, count));
    for (std::size_t i = 0; i < members_.size(); ++i) {
      if (i != place_) members_[i].bell->ring();
    }
  }

  std::byte* buffer(const Member& member, std::size_t chunk) const {
    return member.area->buffers[chunk % SegmentContents::kBuffers];
  }
  std::size_t bytes_in(std::size_t chunk) const { return std::min(chunk_, total_ - chunk * chunk_); }

  bool pack_one() {
    if (packed_ == chunks_ || packed_ == unpacked_ + SegmentContents::kBuffers) return false;
    for_each_piece(packed_, [this](std::size_t entry, std::size_t from, std::size_t to, std::size_t bytes) {
      kernels::copy_bytes(buffer(members_[place_], packed_) + to, inputs_[entry].data() + from, bytes);
    });
    say(own().progress.written, ++packed_);
    return true;
  }

  bool reduce_one() {
    if (reduced_ == packed_ || !all_have(&Area::Progress::written, reduced_ + 1, know_written_)) return false;
    if (abandoned_) return true;
    const std::size_t size = size_of(plan_.dtype), bytes = bytes_in(reduced_);
    const std::size_t lines = (bytes + kLine - 1) / kLine,
                      share = (lines + members_.size() - 1) / members_.size();
    const std::size_t begin = std::min(place_ * share * kLine, bytes);
    const std::size_t end = std::min((place_ + 1) * share * kLine, bytes);
    copies_.clear();
    for (const Member& member : members_) copies_.push_back(buffer(member, reduced_) + begin);
    if (end > begin) reduce_everywhere(reduction_, copies_, (end - begin) / size);
    say(own().progress.reduced, ++reduced_);
    return true;
  }

  bool unpack_one() {
    if (unpacked_ == reduced_ || abandoned_ ||
        !all_have(&Area::Progress::reduced, unpacked_ + 1, know_reduced_))
      return false;
    if (abandoned_) return true;
    for_each_piece(unpacked_, [this](std::size_t entry, std::size_t to, std::size_t from, std::size_t bytes) {
      copy_out(outputs_[entry].data() + to, buffer(members_[place_], unpacked_) + from, bytes);
    });
    ++unpacked_;
    return true;
  }

  // Calls visit(entry, offset in its tensor, offset in the chunk, bytes) for all that lies in a chunk.
  template <class Visit>
  void for_each_piece(std::size_t chunk, Visit visit) const {
    const std::size_t begin = chunk * chunk_, end = begin + bytes_in(chunk);
    auto place = [](const PlanTensor& tensor) { return static_cast<std::size_t>(tensor.offset); };
    const bool alone = plan_.tensors.size() == 1;
    const auto after =
        alone ? plan_.tensors.end() : std::ranges::upper_bound(plan_.tensors, begin, {}, place);
    for (auto tensor = after == plan_.tensors.begin() ? after : std::prev(after);
         tensor != plan_.tensors.end(); ++tensor) {
      const std::size_t offset = alone ? 0 : place(*tensor);
      if (offset >= end) return;
      const auto bytes = static_cast<std::size_t>(tensor->elements()) * size_of(plan_.dtype);
      const std::size_t first = std::max(offset, begin), last = std::min(offset + bytes, end);
      if (first < last)
        visit(static_cast<std::size_t>(tensor - plan_.tensors.begin()), first - offset, first - begin,
              last - first);
    }
  }

  Step put_in_places() {
    for (; placed_ < outputs_.size(); ++placed_) {
      if (outputs_[placed_].advance()) return Step::again;
    }
    return leave(Step::done);
  }

  Step give_up() {
    own().progress.written.store(at(plan_.number, kVoid));
    say(own().progress.reduced, kVoid);
    return leave(Step::given_up);
  }

  Step leave(Step how) {
    own().progress.left.store(plan_.number);
    for (const Member& member : members_) {
      if (member.area->progress.wanted.load() != 0) member.bell->ring();
    }
    return how;
  }

  const Plan& plan_;
  const std::uint64_t last_plan_;
  const std::size_t place_;  // of this rank among the members
  const ScaledReduction reduction_;
  const std::size_t total_;  // bytes
  const std::size_t chunk_;  // bytes, but of the last one
  const std::size_t chunks_;
  std::vector<Member> members_;
  std::vector<Area::Progress*> last_;  // of the members of the area's last Plan
  std::vector<ContiguousInput> inputs_;
  std::vector<ContiguousOutput> outputs_;
  std::vector<std::byte*> copies_;
  std::size_t prepared_ = 0;  // entries
  std::size_t left_ = 0;      // of last_
  std::size_t know_written_ = 0;
  std::size_t know_reduced_ = 0;
  std::size_t packed_ = 0;  // chunks
  std::size_t reduced_ = 0;
  std::size_t unpacked_ = 0;
  std::size_t placed_ = 0;  // entries
  bool begun_ = false;
  bool abandoned_ = false;
};

}  // namespace

bool fits(const Plan& plan) {
  constexpr auto kMost = static_cast<std::int64_t>(std::uint64_t{1} << 56);
  if (plan.operation != Operation::allreduce || plan.tensors.front().elements() > kMost) return false;
  return static_cast<std::uint64_t>(bytes_of(plan)) / chunk_of(plan) < kVoid - 1;
}

std::unique_ptr<Work> start(const Plan& plan, std::span<Entry> entries, Neighbours& neighbours, Rank rank,
                            std::vector<Rank> members, std::size_t area, Use& last, const Memory& memory) {
  Use own{plan.number, std::move(members)};
  Use before = std::exchange(last, own);
  return std::make_unique<StagedAllreduce>(plan, entries, neighbours, rank, std::move(own), std::move(before),
                                           area, memory);
}

}  // namespace rueda::staged_allreduce
