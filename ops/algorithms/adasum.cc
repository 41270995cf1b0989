// SPDX-License-Identifier: Apache-2.0
#include "ops/algorithms/adasum.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/operation_traits.h"
#include "ops/algorithms/passes/pairs.h"
#include "ops/algorithms/passes/tree_sum.h"
#include "ops/buffers/contiguous_copy.h"
#include "ops/collectives/adasum.h"
#include "ops/kernels/kernels.h"

namespace rueda {
namespace {

class Adasum final : public Algorithm {
 public:
  Adasum(const Route& route, const Plan& plan, std::span<Entry> entries, FusionBuffer& buffers)
      : route_(route),
        plan_(plan),
        buffers_(buffers),
        value_size_(static_cast<std::int64_t>(size_of(plan.dtype))),
        accumulator_size_(static_cast<std::int64_t>(size_of(accumulator_of(plan.dtype)))),
        share_(plan, route.group.place, route.group.size) {
    for (Rank place = 0; place < route.group.size; ++place) {
      given_.emplace_back(plan, place, route.group.size);
      begins_.push_back(begins_.back() + given_.back().elements());
    }
    got_ = given_;
    for (Entry& entry : entries) {
      inputs_.emplace_back(entry.submission().input, *route.memory);
      outputs_.emplace_back(entry.submission().output, *route.memory);
    }
  }

  Step step() override {
    if (!advance()) return moved_ ? Step::again : Step::waiting;
    if (phase_ == Phase::unpacking) return Step::done;
    phase_ = after(phase_);
    return Step::again;
  }

  std::string_view phase() const override {
    switch (phase_) {
      case Phase::packing: return "packing tensors";
      case Phase::sharing: return "exchanging parts of tensors";
      case Phase::multiplying: return "multiplying vectors";
      case Phase::summing: return "summing products of vectors";
      case Phase::combining: return "combining vectors";
      case Phase::storing: return "storing the result";
      case Phase::gathering: return "gathering the result";
      case Phase::unpacking: return "unpacking tensors";
    }
    return {};
  }

 private:
  enum class Phase { packing, sharing, multiplying, summing, combining, storing, gathering, unpacking };
  static constexpr std::int64_t kStepElements = 1 << 18;
  static constexpr std::int64_t kCostOfPart = 16;  // as of so many elements

  bool abandoned() const { return route_.wire->abandoned(); }

  // A step of the phase; whether it is over.
  bool advance() {
    moved_ = true;
    switch (phase_) {
      case Phase::packing: return abandoned() || (prepare() && pack());
      case Phase::multiplying: return abandoned() || !share_.multiply();
      case Phase::combining: return combine();
      case Phase::storing: return abandoned() || store();
      case Phase::unpacking: return abandoned() || unpack();
      case Phase::sharing: return exchange(&Adasum::add_vectors);
      case Phase::gathering: return exchange(&Adasum::add_results);
      case Phase::summing: return sum();
    }
    return true;
  }

  Phase after(Phase phase) const {
    const bool over = share_.level() == share_.levels();
    if (phase == Phase::sharing || phase == Phase::combining)
      return over ? Phase::storing : Phase::multiplying;
    return static_cast<Phase>(static_cast<int>(phase) + 1);
  }

  // Gets the memory and contiguous inputs, in steps.
  bool prepare() {
    share_.prepare(*route_.memory);
    if (!buffer_)
      buffer_.emplace(buffers_.acquire(static_cast<std::size_t>(begins_.back() * accumulator_size_)));
    const std::size_t room = TreeSum::room(route_.group, share_.most_numbers()) * sizeof(double);
    if (room_.size() < room) room_ = route_.memory->get("products of vectors", room);
    for (; prepared_ < inputs_.size(); ++prepared_) {
      outputs_[prepared_].prepare();
      if (inputs_[prepared_].advance()) return false;
    }
    return true;
  }

  // The vectors by place, as accumulators.
  bool pack() {
    const kernels::Kernels& kernels = kernels::kernels_for(plan_.dtype);
    return walk(given_, [&](const TensorSegments::Part& part, Rank place, std::int64_t offset) {
      const std::byte* values = inputs_[part.tensor].data() + part.begin * value_size_;
      if (place == route_.group.place) return share_.load(place, offset, values, part.count);
      kernels.load(buffer_->data() + (begins_[place] + offset) * accumulator_size_, values,
                   static_cast<std::size_t>(part.count), {plan_.prescale_factor, 1});
    });
  }

  bool exchange(void (Adasum::*add)(Rank to, Rank from)) {
    if (!pairs_) {
      pairs_.emplace();
      for (Rank distance = 1; distance < route_.group.size; ++distance)
        (this->*add)(route_.group.neighbour(distance), route_.group.neighbour(-distance));
    }
    const Step step = pairs_->step();
    moved_ = step == Step::again;
    if (step != Step::done) return false;
    pairs_.reset();
    return true;
  }
  void add_vectors(Rank to, Rank from) {
    add_pair(to, from, share_.of(from), at(buffer(), begins_[to] * accumulator_size_), elements(to),
             share_.elements(), accumulator_size_);
  }
  void add_results(Rank to, Rank from) {
    add_pair(to, from, at(buffer(), begins_[from] * value_size_),
             at(buffer(), begins_[route_.group.place] * value_size_), share_.elements(), elements(from),
             value_size_);
  }
  void add_pair(Rank to, Rank from, std::byte* received, const std::byte* sent, std::int64_t send,
                std::int64_t receive, std::int64_t size) {
    pairs_->add({*route_.wire, route_.group.rank_at(from), received, static_cast<std::size_t>(receive * size),
                 route_.chunk_bytes},
                {*route_.wire, route_.group.rank_at(to), sent, static_cast<std::size_t>(send * size),
                 route_.chunk_bytes});
  }

  bool sum() {
    if (!sum_) {
      sum_.emplace(route_, share_.data(), share_.numbers(share_.level()),
                   reinterpret_cast<double*>(room_.data()));
    }
    const Step step = sum_->step();
    moved_ = step == Step::again;
    if (step != Step::done) return false;
    sum_.reset();
    return true;
  }

  bool combine() {
    if (!abandoned()) return !share_.combine();
    share_.skip_level();
    return true;
  }

  // This rank's share of the result, in its place in the buffer.
  bool store() {
    const std::int64_t count = std::min(kStepElements, share_.elements() - stored_);
    share_.store(buffer() + (begins_[route_.group.place] + stored_) * value_size_, stored_, count);
    stored_ += count;
    return stored_ == share_.elements();
  }

  bool unpack() {
    const bool all = walk(got_, [&](const TensorSegments::Part& part, Rank place, std::int64_t offset) {
      kernels::copy_bytes(outputs_[part.tensor].data() + part.begin * value_size_,
                          buffer() + (begins_[place] + offset) * value_size_,
                          static_cast<std::size_t>(part.count * value_size_));
    });
    if (!all) return false;
    for (; placed_ < outputs_.size(); ++placed_) {
      if (outputs_[placed_].advance()) return false;
    }
    return true;
  }

  // Calls visit(part, place, offset in the share) for the next parts of all shares; true when all have been.
  template <class Visit>
  bool walk(std::vector<TensorSegments>& shares, Visit visit) {
    for (std::int64_t left = kStepElements; left > 0;) {
      if (at_place_ == route_.group.size) {
        at_place_ = 0;
        return true;
      }
      const TensorSegments::Part part = shares[at_place_].next(left);
      if (part.count > 0) visit(part, at_place_, walked_);
      walked_ += part.count;
      left -= part.count + kCostOfPart;
      if (part.count > 0) continue;
      ++at_place_;
      walked_ = 0;
    }
    return false;
  }

  std::byte* buffer() const { return buffer_ ? buffer_->data() : nullptr; }
  std::int64_t elements(Rank place) const { return begins_[place + 1] - begins_[place]; }

  Route route_;
  const Plan& plan_;
  FusionBuffer& buffers_;
  const std::int64_t value_size_;
  const std::int64_t accumulator_size_;
  AdasumShare share_;
  std::vector<std::int64_t> begins_{0};  // of each place's share in the buffer, and the end: elements
  std::vector<TensorSegments> given_;    // how far the shares have been packed
  std::vector<TensorSegments> got_;      // and unpacked
  std::vector<ContiguousInput> inputs_;
  std::vector<ContiguousOutput> outputs_;
  std::optional<FusionBuffer::Lease> buffer_;  // accumulators to be sent, then values of the result
  HostBuffer room_;                            // for products that come
  Phase phase_ = Phase::packing;
  bool moved_ = false;
  std::size_t prepared_ = 0;  // entries
  std::size_t placed_ = 0;
  std::int64_t stored_ = 0;  // elements
  Rank at_place_ = 0;        // where walk() is
  std::int64_t walked_ = 0;  // elements of that share
  std::optional<Pairs> pairs_;
  std::optional<TreeSum> sum_;
};

}  // namespace

std::unique_ptr<Algorithm> adasum(const Route& route, const Plan& plan, std::span<Entry> entries,
                                  FusionBuffer& buffers) {
  return std::make_unique<Adasum>(route, plan, entries, buffers);
}

}  // namespace rueda
