// SPDX-License-Identifier: Apache-2.0
#include "ops/hierarchy/hierarchy_work.h"

#include <algorithm>

#include "ops/kernels/pack.h"

namespace rueda {

HierarchyWork::HierarchyWork(const Plan& plan, const HostContext& context, Slices slices)
    : StagedWork(plan.number, context.area),
      plan_(plan.number),
      chunk_bytes_(plan.chunk_bytes),
      groups_(context.groups),
      host_(context.groups->host_of(context.area.peers.rank())),
      link_(context.link),
      memory_(context.memory),
      slices_(slices) {}

PlanRoute HierarchyWork::route() const {
  PlanRoute route = journeys();
  route.inside = StagedWork::route().inside;
  return route;
}

void HierarchyWork::copy_to_others(std::span<std::byte* const> buffers, Run run) const {
  for (std::size_t member = 0; member < members(); ++member) {
    if (member != index())
      kernels::copy_bytes(buffers[member] + run.begin, buffers[index()] + run.begin, run.size());
  }
}

bool HierarchyWork::Chunk::over() const {
  return std::ranges::all_of(journeys, [](const auto& journey) { return journey->algorithm == nullptr; });
}

void HierarchyWork::take(std::size_t chunk, std::span<std::byte* const> buffers) {
  collect(chunk, buffers);
  depart(chunk, false);
}

void HierarchyWork::depart(std::size_t chunk, bool abandoned) {
  Chunk& leaving = under_way_.emplace_back(chunk);
  ++departed_;
  for_owned(chunk, [&](std::size_t slice) {
    const Tag tag = tag_of(plan_, lane(chunk % SegmentContents::kWideBuffers, slices_.count(), slice));
    Journey& journey = *leaving.journeys.emplace_back(std::make_unique<Journey>(link_, tag));
    if (abandoned) journey.channel.abandon();
    const Group owners = slices_.owners(*groups_, chunk, slice, host_);
    journey.algorithm = journey_of(chunk, slice, {&journey.channel, nullptr, &memory_, owners, chunk_bytes_});
  });
}

// Whether anything moved.
bool HierarchyWork::move(Chunk& chunk) {
  bool moved = false;
  for (const auto& journey : chunk.journeys) {
    if (!journey->algorithm) continue;
    const Step step = journey->algorithm->step();
    if (step == Step::done) journey->algorithm.reset();
    if (journey->channel.abandoned()) abandon();
    moved |= step != Step::waiting;
  }
  return moved;
}

bool HierarchyWork::travel() {
  bool moved = false;
  for (Chunk& chunk : under_way_) moved |= move(chunk);
  return moved;
}

bool HierarchyWork::back(std::size_t) { return under_way_.front().over(); }

void HierarchyWork::finish(std::size_t chunk, std::span<std::byte* const> buffers) {
  spread(chunk, buffers);
  under_way_.pop_front();
}

// Nobody waits for the other members of the host between chunks: each goes through its own slices.
Work::Step HierarchyWork::take_in_place(std::span<std::byte* const> offers) {
  if (departed_ == 0) find_in_place(offers);
  bool moved = travel();
  for (; !abandoned() && !under_way_.empty() && under_way_.front().over(); moved = true) {
    spread_in_place(under_way_.front().number);
    under_way_.pop_front();
  }
  if (!abandoned() && departed_ < chunks() && under_way_.size() < SegmentContents::kWideBuffers) {
    collect_in_place(departed_);
    depart(departed_, false);
    moved = true;
  }
  if (under_way_.empty() && departed_ == chunks()) return Step::done;
  return moved ? Step::again : Step::waiting;
}

// No more at a time than otherwise: the tags of a chunk are those of the one SegmentContents::kWideBuffers
// before.
Work::Step HierarchyWork::run_out() {
  bool moved = false;
  for (; departed_ < chunks() && under_way_.size() < SegmentContents::kWideBuffers; moved = true)
    depart(departed_, true);
  for (Chunk& chunk : under_way_) {
    for (const auto& journey : chunk.journeys) journey->channel.abandon();
    moved |= move(chunk);
  }
  for (; !under_way_.empty() && under_way_.front().over(); moved = true) under_way_.pop_front();
  if (under_way_.empty() && departed_ == chunks()) return Step::done;
  return moved ? Step::again : Step::waiting;
}

}  // namespace rueda
