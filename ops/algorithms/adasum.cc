// SPDX-License-Identifier: Apache-2.0
#include "ops/algorithms/adasum.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "core/base/operation_traits.h"
#include "ops/algorithms/passes/pairs.h"
#include "ops/algorithms/passes/tree_sum.h"
#include "ops/buffers/contiguous_tensors.h"
#include "ops/kernels/kernels.h"

namespace rueda {
namespace {

constexpr std::size_t kEach = 3;  // numbers of a tensor and pair: its Products

// A step goes through about so many elements, of blocks and parts each of which costs as much as some
// elements more.
constexpr std::int64_t kStepElements = 1 << 18;
constexpr std::int64_t kBlockElements = 1 << 14;
constexpr std::int64_t kCostOfBlock = 64;
constexpr std::int64_t kCostOfPart = 16;

}  // namespace

std::vector<std::vector<AdasumPair>> adasum_levels(Rank size) {
  const auto whole = static_cast<Rank>(std::bit_floor(static_cast<std::uint32_t>(size)));
  std::vector<std::vector<AdasumPair>> levels;
  if (size > whole) {
    auto& level = levels.emplace_back();
    for (Rank index = whole; index < size; ++index) level.push_back({index - whole, index});
  }
  for (Rank distance = 1; distance < whole; distance *= 2) {
    auto& level = levels.emplace_back();
    for (Rank index = 0; index < whole; index += 2 * distance) level.push_back({index, index + distance});
  }
  return levels;
}

template <class Visit>
bool AdasumBlocks::advance(std::size_t pairs, Visit visit) {
  for (std::int64_t cost = 0; pair_ < pairs && cost < kStepElements;) {
    const TensorSegments::Part part = TensorSegments::part(plan_, tensor_, index_, size_);
    const std::int64_t count = std::min(kBlockElements, part.count - done_);
    if (count > 0) visit(pair_, tensor_, offset_ + done_, count);
    cost += count + kCostOfBlock;
    done_ += count;
    if (done_ < part.count) continue;
    done_ = 0;
    offset_ += part.count;
    if (++tensor_ < plan_.tensors.size()) continue;
    tensor_ = 0;
    offset_ = 0;
    ++pair_;
  }
  if (pair_ < pairs) return true;
  pair_ = 0;
  return false;
}

AdasumShare::AdasumShare(const Plan& plan, Rank index, Rank size)
    : plan_(plan),
      size_(size),
      elements_(TensorSegments(plan, index, size).elements()),
      accumulator_(accumulator_of(plan.dtype)),
      accumulator_size_(static_cast<std::int64_t>(size_of(accumulator_))),
      levels_(adasum_levels(size)),
      blocks_(plan, index, size) {}

void AdasumShare::prepare(const Memory& memory) {
  if (prepared_) return;
  vectors_ =
      memory.get("its share of all vectors", static_cast<std::size_t>(size_ * elements_ * accumulator_size_));
  numbers_ = memory.get("products of vectors", most_numbers() * sizeof(double));
  prepared_ = true;
}

std::byte* AdasumShare::of(Rank index) const {
  return prepared_ ? vectors_.data() + index * elements_ * accumulator_size_ : nullptr;
}

void AdasumShare::load(Rank index, std::int64_t begin, const void* values, std::int64_t count) {
  kernels::kernels_for(plan_.dtype)
      .load(of(index) + begin * accumulator_size_, values, static_cast<std::size_t>(count),
            {plan_.prescale_factor, 1});
}

void AdasumShare::store(void* values, std::int64_t begin, std::int64_t count) const {
  kernels::kernels_for(plan_.dtype)
      .store(values, of(0) + begin * accumulator_size_, static_cast<std::size_t>(count),
             {plan_.postscale_factor, 1});
}

std::size_t AdasumShare::numbers(std::size_t level) const {
  return kEach * levels_[level].size() * plan_.tensors.size();
}

std::size_t AdasumShare::most_numbers() const {
  std::size_t most = 0;
  for (std::size_t level = 0; level < levels_.size(); ++level) most = std::max(most, numbers(level));
  return most;
}

double* AdasumShare::numbers_of(std::size_t pair, std::size_t tensor) const {
  return data() + kEach * (pair * plan_.tensors.size() + tensor);
}

bool AdasumShare::multiply() {
  if (blocks_.at_begin()) std::fill_n(data(), numbers(level_), 0.0);
  const std::vector<AdasumPair>& pairs = levels_[level_];
  const kernels::AdasumKernels& kernels = kernels::adasum_kernels_for(accumulator_);
  auto visit = [&](std::size_t pair, std::size_t tensor, std::int64_t first, std::int64_t count) {
    const std::int64_t at = first * accumulator_size_;
    const kernels::Products products = kernels.products(of(pairs[pair].into) + at, of(pairs[pair].from) + at,
                                                        static_cast<std::size_t>(count));
    double* number = numbers_of(pair, tensor);
    number[0] += products.aa;
    number[1] += products.ab;
    number[2] += products.bb;
  };
  return blocks_.advance(pairs.size(), visit);
}

bool AdasumShare::combine() {
  const std::vector<AdasumPair>& pairs = levels_[level_];
  const kernels::AdasumKernels& kernels = kernels::adasum_kernels_for(accumulator_);
  auto visit = [&](std::size_t pair, std::size_t tensor, std::int64_t first, std::int64_t count) {
    const std::int64_t at = first * accumulator_size_;
    const double* number = numbers_of(pair, tensor);
    kernels.combine(of(pairs[pair].into) + at, of(pairs[pair].from) + at, static_cast<std::size_t>(count),
                    kernels::adasum_factors({number[0], number[1], number[2]}));
  };
  if (blocks_.advance(pairs.size(), visit)) return true;
  ++level_;
  return false;
}

namespace {

// Purpose: goes through the parts of all ranks' shares, rank by rank, some at a time. Part of an Adasum.
class ShareWalk {
 public:
  ShareWalk(const Plan& plan, Rank size) : plan_(&plan), size_(size), parts_(plan, 0, size) {}

  // Calls visit(part, index, offset in the share) for the next parts; true when all have been visited.
  template <class Visit>
  bool advance(Visit visit) {
    for (std::int64_t left = kStepElements; left > 0;) {
      if (index_ == size_) return true;
      const TensorSegments::Part part = parts_.next(left);
      left -= part.count + kCostOfPart;
      if (part.count == 0) {
        parts_ = TensorSegments(*plan_, ++index_, size_);
        done_ = 0;
        continue;
      }
      visit(part, index_, done_);
      done_ += part.count;
    }
    return false;
  }

 private:
  const Plan* plan_;
  Rank size_;
  Rank index_ = 0;
  TensorSegments parts_;
  std::int64_t done_ = 0;  // elements of this share
};

class Adasum final : public Algorithm {
 public:
  Adasum(const Route& route, const Plan& plan, std::span<Entry> entries, FusionBuffer& buffers)
      : route_(route),
        plan_(plan),
        buffers_(buffers),
        share_(plan, route.group.index, route.group.size),
        walk_(plan, route.group.size),
        tensors_(entries, *route.memory, lists_) {
    for (Rank index = 0; index < route.group.size; ++index)
      begins_.push_back(begins_.back() + TensorSegments(plan, index, route.group.size).elements());
  }

  Step step() override {
    const Step step = advance();
    if (step != Step::done || phase_ == Phase::unpacking) return step;
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

  bool abandoned() const { return route_.channel->abandoned(); }
  static Step done_if(bool over) { return over ? Step::done : Step::again; }

  // A step of the phase; done: it is over.
  Step advance() {
    switch (phase_) {
      case Phase::packing: return done_if(abandoned() || (prepare() && pack()));
      case Phase::sharing: return exchange();
      case Phase::multiplying: return done_if(abandoned() || !share_.multiply());
      case Phase::summing: return sum();
      case Phase::combining: return done_if(combine());
      case Phase::storing: return done_if(abandoned() || store());
      case Phase::gathering: return exchange();
      case Phase::unpacking: return done_if(abandoned() || (unpack() && !tensors_.copy_back()));
    }
    return Step::done;
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
      buffer_.emplace(buffers_.acquire(static_cast<std::size_t>(begins_.back() * share_.accumulator_size())));
    const std::size_t room = TreeSum::room(route_.group, share_.most_numbers()) * sizeof(double);
    if (room_.size() < room) room_ = route_.memory->get("products of vectors", room);
    return !tensors_.prepare();
  }

  // The vectors by index, as accumulators.
  bool pack() {
    const kernels::Kernels& kernels = kernels::kernels_for(plan_.dtype);
    return walk_.advance([&](const TensorSegments::Part& part, Rank index, std::int64_t offset) {
      const std::byte* values = tensors_.input(part.tensor) + part.begin * value_size();
      if (index == route_.group.index) return share_.load(index, offset, values, part.count);
      kernels.load(buffer_->data() + (begins_[index] + offset) * share_.accumulator_size(), values,
                   static_cast<std::size_t>(part.count), {plan_.prescale_factor, 1});
    });
  }

  // Every rank with every other, of the phase what there is to send.
  Step exchange() {
    if (!pairs_) {
      pairs_.emplace();
      for (Rank distance = 1; distance < route_.group.size; ++distance) {
        const Rank to = route_.group.neighbour(distance), from = route_.group.neighbour(-distance);
        phase_ == Phase::sharing ? add_vectors(to, from) : add_results(to, from);
      }
    }
    const Step step = pairs_->step();
    if (step == Step::done) pairs_.reset();
    return step;
  }
  void add_vectors(Rank to, Rank from) {
    add_pair(to, from, share_.of(from), at(buffer(), begins_[to] * share_.accumulator_size()), elements(to),
             share_.elements(), share_.accumulator_size());
  }
  void add_results(Rank to, Rank from) {
    add_pair(to, from, at(buffer(), begins_[from] * value_size()),
             at(buffer(), begins_[route_.group.index] * value_size()), share_.elements(), elements(from),
             value_size());
  }
  void add_pair(Rank to, Rank from, std::byte* received, const std::byte* sent, std::int64_t send,
                std::int64_t receive, std::int64_t size) {
    pairs_->add({*route_.channel, route_.group.rank_at(from), received,
                 static_cast<std::size_t>(receive * size), route_.chunk_bytes},
                {*route_.channel, route_.group.rank_at(to), sent, static_cast<std::size_t>(send * size),
                 route_.chunk_bytes});
  }

  Step sum() {
    if (!sum_) {
      sum_.emplace(route_, share_.data(), share_.numbers(share_.level()),
                   reinterpret_cast<double*>(room_.data()));
    }
    const Step step = sum_->step();
    if (step == Step::done) sum_.reset();
    return step;
  }

  bool combine() {
    if (!abandoned()) return !share_.combine();
    share_.skip_level();
    return true;
  }

  // Stores this rank's share of the result at its offset in the buffer. The walk for unpack() begins anew.
  bool store() {
    const std::int64_t count = std::min(kStepElements, share_.elements() - stored_);
    share_.store(buffer() + (begins_[route_.group.index] + stored_) * value_size(), stored_, count);
    stored_ += count;
    walk_ = ShareWalk(plan_, route_.group.size);
    return stored_ == share_.elements();
  }

  bool unpack() {
    return walk_.advance([&](const TensorSegments::Part& part, Rank index, std::int64_t offset) {
      kernels::copy_bytes(tensors_.output(part.tensor) + part.begin * value_size(),
                          buffer() + (begins_[index] + offset) * value_size(),
                          static_cast<std::size_t>(part.count * value_size()));
    });
  }

  std::byte* buffer() const { return buffer_ ? buffer_->data() : nullptr; }
  std::int64_t value_size() const { return static_cast<std::int64_t>(size_of(plan_.dtype)); }
  std::int64_t elements(Rank index) const { return begins_[index + 1] - begins_[index]; }

  Route route_;
  const Plan& plan_;
  FusionBuffer& buffers_;
  AdasumShare share_;
  std::vector<std::int64_t> begins_{0};  // of each index's share in the buffer, and the end: elements
  ShareWalk walk_;                       // how far has been packed, then unpacked
  InlineVectors lists_;
  ContiguousTensors tensors_;
  std::optional<FusionBuffer::Lease> buffer_;  // accumulators to be sent, then values of the result
  HostBuffer room_;                            // for products that come
  Phase phase_ = Phase::packing;
  std::int64_t stored_ = 0;  // elements
  std::optional<Pairs> pairs_;
  std::optional<TreeSum> sum_;
};

}  // namespace

std::unique_ptr<Algorithm> adasum(const Route& route, const Plan& plan, std::span<Entry> entries,
                                  FusionBuffer& buffers) {
  return std::make_unique<Adasum>(route, plan, entries, buffers);
}

}  // namespace rueda
