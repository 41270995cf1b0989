// SPDX-License-Identifier: Apache-2.0
#include "ops/nccl/nccl_hierarchy.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/host_buffer.h"
#include "core/base/operation_traits.h"
#include "core/engine/submissions/submission.h"
#include "ops/buffers/fused_range.h"
#include "ops/nccl/nccl_group_work.h"
#include "ops/nccl/nccl_launch.h"

namespace rueda {
namespace {

// Purpose: one such Plan, in rounds of what fits the group's buffer. All that NCCL is given on one member of
// a host must be given on all: so a Work that is abandoned goes through all its rounds, too, without touching
// tensors; between hosts its messages are empty, by which the owners of that share hear of it, and each host
// votes before it takes a round for data.
class NcclHierarchyWork final : public NcclGroupWork {
 public:
  NcclHierarchyWork(const Plan& plan, std::span<Entry> entries, NcclContext context,
                    std::shared_ptr<const HostGroups> hosts)
      : NcclGroupWork(plan, entries, context, context.state.group(*plan.members, NcclReach::host)) {
    const Rank rank = context.state.rank();
    RankSet across, inside;
    for (const std::vector<Rank>& host : hosts->hosts) across.add(RankSet::of(host[hosts->index_of(rank)]));
    for (const Rank member : hosts->hosts[hosts->host_of(rank)]) inside.add(RankSet::of(member));
    across_ = among(std::move(across));
    inside_ = among(std::move(inside));
    inside_.tensors.assign(1, plan.tensors.front());
    scale();
    across_.dtype = plan.dtype;
    across_.compression = plan.compression;
    for (const PlanTensor& tensor : plan.tensors) {
      bytes_ = static_cast<std::size_t>(tensor.offset) * (plan.tensors.size() > 1) +
               static_cast<std::size_t>(tensor.elements()) * size_of(plan.dtype);
    }
  }
  ~NcclHierarchyWork() override {  // what works before what it works on
    vote_.reset();
    link_work_.reset();
  }

 private:
  enum class Stage { turn, reducing, leaving, across, gathering };

  Step carry_out() override {
    NcclLane& lane = group_.lane_of(plan_);
    switch (stage_) {
      case Stage::turn:
        if (!context_.state.is_next(plan_.number)) return Step::waiting;
        if (done_ == bytes_) return over();
        begin_round(lane);
        return Step::again;
      case Stage::reducing:
        if (!lane.ready()) return Step::waiting;
        lane.queue().copy(group_.pinned_of(plan_), own_share(lane), share_);
        outside_ = lane.record();
        stage_ = Stage::leaving;
        return Step::again;
      case Stage::leaving:
        if (!outside_->passed()) return Step::waiting;
        stage_ = Stage::across;
        begin_across();
        return Step::again;
      case Stage::across: return go_across(lane);
      case Stage::gathering: break;
    }
    if (vote_) return vote();
    if (!lane.ready()) return Step::waiting;
    end_round(lane);
    return Step::again;
  }

  void abandon_own() override {
    if (link_work_) link_work_->abandon();
    if (vote_) vote_->abandon();
  }

  std::string_view own_phase() const override {
    switch (stage_) {
      case Stage::turn: return "waiting for an earlier operation of NCCL's to begin";
      case Stage::reducing:
      case Stage::leaving: return "reducing inside the host by NCCL";
      case Stage::across: return link_work_ ? link_work_->phase() : "reducing between hosts";
      case Stage::gathering: break;
    }
    return "gathering inside the host by NCCL";
  }

  PlanRoute own_route() const override {
    PlanRoute route = route_across_;
    route.inside = "NCCL";
    route.ends_on_device = true;
    return route;
  }

  // A part of the Plan that only these carry out.
  Plan among(RankSet members) const {
    Plan part;
    part.number = plan_.number;
    part.process_set = plan_.process_set;
    part.chunk_bytes = plan_.chunk_bytes;
    part.members = std::make_shared<const RankSet>(std::move(members));
    return part;
  }

  // Factors and the divisor of an average are applied before NCCL adds, so that sums do not overflow; of
  // 16-bit floats by what they lose nothing, the rest between hosts, in float32.
  void scale() {
    across_.reduce_op = plan_.reduce_op;
    const bool averages = plan_.reduce_op == ReduceOp::average;
    if (!averages && plan_.reduce_op != ReduceOp::sum) return;
    const double divisor = averages ? plan_.members->count() : 1;
    const double factor = plan_.prescale_factor * plan_.postscale_factor / divisor;
    const bool narrow = accumulator_of(plan_.dtype) != plan_.dtype;
    before_ = narrow ? exact_part(factor, plan_.dtype) : plan_.prescale_factor / divisor;
    across_.reduce_op = ReduceOp::sum;
    across_.postscale_factor = before_ == 0.0 ? 1.0 : factor / before_;
  }

  Rank circle() const { return group_.connected(); }
  std::byte* own_share(NcclLane& lane) const {
    return lane.buffer() + static_cast<std::size_t>(group_.connected_index()) * share_;
  }
  // Bytes of this rank's share that are of tensors.
  std::size_t own_bytes() const {
    const std::size_t begin = static_cast<std::size_t>(group_.connected_index()) * share_;
    return round_ > begin ? std::min(share_, round_ - begin) : 0;
  }

  void begin_round(NcclLane& lane) {
    const auto members = static_cast<std::size_t>(circle());
    const std::size_t line = HostBuffer::kAlignment,
                      most = group_.buffer_bytes() / members / line * line * members;
    round_ = std::min(most, bytes_ - done_);
    share_ = HostBuffer::whole_lines((round_ + members - 1) / members);
    if (!abandoned_) {
      if (done_ == 0) prepare(lane);
      move(lane, true);
    }
    const NcclReduction reduction = plain_reduction(across_.reduce_op, plan_.dtype);
    const std::vector<std::int64_t> parts(members, static_cast<std::int64_t>(share_ / size_of(plan_.dtype)));
    launch_reducescatter(own_end(), reduction, lane.buffer(), own_share(lane), parts, size_of(plan_.dtype));
    stage_ = Stage::reducing;
  }

  // Tensors of this round into the buffer, or out of it.
  void move(NcclLane& lane, bool into) {
    BatchCopy copy{plan_.dtype, plan_.dtype, into ? before_ : 1.0, {}};
    for (const FusedPiece& piece : FusedRange(plan_, done_, done_ + round_)) {
      const Submission& submission = entries_[piece.tensor].submission();
      std::byte* const memory = lane.buffer() + piece.in_range;
      const auto elements = static_cast<std::int64_t>(piece.bytes / size_of(plan_.dtype));
      if (into) {
        const auto* from = static_cast<const std::byte*>(submission.input.data);
        copy.pieces.push_back({from + piece.in_tensor, memory, elements});
      } else {
        auto* to = static_cast<std::byte*>(submission.output.data);
        copy.pieces.push_back({memory, to + piece.in_tensor, elements});
      }
    }
    if (!copy.pieces.empty()) lane.queue().copy(copy);
  }

  void prepare(NcclLane& lane) {
    for (; prepared_ < entries_.size(); ++prepared_) {
      Entry& each = entries_[prepared_];
      Submission& submission = each.submission();
      if (each.joined) {
        submission.output.data = temporary(submission.input, submission.input.bytes());
        submission.input.data = submission.output.data;
      } else {
        check_device(each);
        submission.ready->hold_back(lane.queue().stream());
      }
    }
  }

  void begin_across() {
    if (own_bytes() == 0) return;
    Submission submission;
    Request& request = submission.request;
    request.name = plan_.tensors.front().name();
    request.dtype = plan_.dtype;
    request.shape = {static_cast<std::int64_t>(own_bytes() / size_of(plan_.dtype))};
    submission.output = {group_.pinned_of(plan_), plan_.dtype, request.shape, {}};
    submission.input = submission.output;
    entries_across_.clear();
    entries_across_.emplace_back(std::make_shared<HandleState>(nullptr, std::move(submission)));
    across_.tensors.assign(1, {0, true, entries_across_.front().shared_request});
    across_.buffer_bytes = 0;
    assign_offset(across_, across_.tensors.front());
    link_work_ = context_.link.start(across_, entries_across_);
    route_across_ = link_work_->route();
    if (abandoned_) link_work_->abandon();
  }

  Step go_across(NcclLane& lane) {
    if (link_work_) {
      const Step step = link_work_->step();
      if (step == Step::again || step == Step::waiting) return step;
      if (step == Step::given_up) abandoned_ = true;
      link_work_.reset();
      lane.queue().copy(own_share(lane), group_.pinned_of(plan_), own_bytes());
    }
    const std::vector<std::int64_t> parts(static_cast<std::size_t>(circle()),
                                          static_cast<std::int64_t>(share_));
    launch_allgather(own_end(), own_share(lane), lane.buffer(), parts);
    stage_ = Stage::gathering;
    vote_.emplace(context_.link, inside_, Bytes{std::byte{1}});
    if (abandoned_) vote_->abandon();
    return Step::again;
  }

  // One void share makes all that NCCL gathers void. Only the owner of the share knows, so the members vote.
  Step vote() {
    const Step step = vote_->step();
    if (step == Step::again || step == Step::waiting) return step;
    if (step == Step::given_up) abandoned_ = true;
    vote_.reset();
    return Step::again;
  }

  void end_round(NcclLane& lane) {
    if (!abandoned_) move(lane, false);
    done_ += round_;
    stage_ = Stage::turn;
  }

  Step over() {
    finish();
    return abandoned_ ? Step::given_up : Step::done;
  }

  double before_ = 1.0;
  Plan across_;  // of the members of equal index
  Plan inside_;  // of those of this host
  std::optional<MemberExchange> vote_;
  std::vector<Entry> entries_across_;
  std::unique_ptr<Work> link_work_;
  PlanRoute route_across_;
  std::size_t bytes_ = 0;  // of the Plan's fused buffer
  std::size_t done_ = 0;
  std::size_t round_ = 0;  // bytes of this round
  std::size_t share_ = 0;  // of it, each member's, in whole lines
  std::size_t prepared_ = 0;
  Stage stage_ = Stage::turn;
  std::shared_ptr<const Fence> outside_;
};

}  // namespace

bool NcclHierarchyBackend::can_run(const Plan& plan) const {
  if (!wanted_ || plan.capture != 0 || plan.operation != Operation::allreduce ||
      !is_floating_point(plan.dtype))
    return false;
  if (!nccl_can_run(plan) || !link_.can_run(plan) || !state_->usable()) return false;
  const std::shared_ptr<const HostGroups> groups = hosts_->groups(plan);
  const bool even =
      std::ranges::all_of(groups->hosts, [&](const auto& host) { return host.size() == groups->largest; });
  return groups->hosts.size() > 1 && groups->largest > 1 && even &&
         !state_->refused(*plan.members, NcclReach::host);
}

std::unique_ptr<Work> NcclHierarchyBackend::start(const Plan& plan, std::span<Entry> entries) {
  return std::make_unique<NcclHierarchyWork>(plan, entries, NcclContext{link_, *state_, *sides_, staged_},
                                             hosts_->groups(plan));
}

}  // namespace rueda
