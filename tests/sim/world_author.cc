// SPDX-License-Identifier: Apache-2.0
// The scene of a random world, and the Calls of which its phases consist.
#include "tests/sim/world_author.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "core/base/operation_traits.h"

namespace rueda {

std::vector<bool> WorldAuthor::members(int set) const {
  std::vector<bool> result(script_.size);
  const RankSet& ranks = script_.sets[set];
  for (Rank i = 0; i < ranks.count(); ++i) result[ranks.at(i)] = true;
  return result;
}

// A range, every so many ranks, one rank, or any.
RankSet WorldAuthor::some_members() {
  RankSet ranks;
  const Rank size = script_.size, first = some_rank();
  switch (below(5)) {
    case 0: ranks.add(first, first + 1 + static_cast<Rank>(below(size - first))); break;
    case 1:
      for (Rank stride = 2 + static_cast<Rank>(below(5)), r = first % stride; r < size; r += stride)
        ranks.add(r, r + 1);
      break;
    case 2: ranks.add(first, first + 1); break;
    default:
      ranks.add(first, first + 1);
      for (Rank i = 0; i < std::min(size, 60); ++i) {
        const Rank r = some_rank();
        if (once_in(2)) ranks.add(r, r + 1);
      }
  }
  return ranks;
}

// Fields by the name, so that a name means the same each time unless it is changed on purpose.
Request WorldAuthor::wish(Operation operation, std::string name) {
  Request request;
  request.name = std::move(name);
  request.operation = operation;
  request.shape = {static_cast<std::int64_t>(1 + request.name.size() % 3), 4};
  if (once_in(changes_)) request.shape.back() = 1 + below(4);
  if (operation == Operation::barrier) request.shape = {0};
  if (traits(operation).reduces && request.name.size() % 2 == 0) request.dtype = DataType::int32;
  request.measure = can_measure(operation, request.dtype) && request.name.size() % 3 != 0;
  return request;
}

Call WorldAuthor::call_of(int set, Operation operation, std::string name) {
  Call call;
  call.set = set;
  call.request = wish(operation, std::move(name));
  if (traits(operation).has_root) call.request.root = script_.sets[set].at(0);
  call.takes_part = members(set);
  call.outcomes = {StatusCode::ok};
  return call;
}

// What moves no data; its name does not come again.
Call WorldAuthor::decision(int set, Operation operation, std::string_view name) {
  Call call = call_of(set, operation, fmt::format("{}{}", name, unique_++));
  call.request.dtype = DataType::uint8;
  call.request.shape = {0};
  return call;
}

// One rank wants something else.
void WorldAuthor::differ(Call& call) {
  if (script_.sets[call.set].count() < 2) return;
  call.odd = member_of(call.set);
  call.odd_request = call.request;
  switch (below(6)) {
    case 0: call.odd_request.shape.push_back(2); break;
    case 1: call.odd_request.dtype = DataType::float64; break;
    case 2: call.odd_request.reduction_order = ReductionOrder::fixed; break;
    case 3: call.odd_request.compression = Compression::bf16; break;
    case 4: call.odd_request.postscale_factor = 0.5; break;
    default:
      if (can_measure(call.request.operation, call.request.dtype)) {
        call.odd_request.measure = !call.request.measure;
      } else {
        call.odd_request.prescale_factor = 0.5;
      }
  }
  if (call.request.operation == Operation::add_process_set) {
    call.odd_request = call.request;
    call.odd_request.members = call.request.members == RankSet(0, 1) ? RankSet(0, 2) : RankSet(0, 1);
  }
  call.outcomes = {StatusCode::mismatch};
  script_.regular = false;
}

void WorldAuthor::set_scene() {
  ControlWorld::Options& options = script_.options;
  const auto largest_host = 1 + below(std::min<unsigned>(script_.size, once_in(2) ? 4 : 24));
  int host = 0;
  while (options.hosts.size() < static_cast<std::size_t>(script_.size)) {
    const std::size_t end = options.hosts.size() + 1 + below(largest_host);
    options.hosts.resize(std::min<std::size_t>(end, script_.size), fmt::format("host{}", host++));
  }
  if (once_in(4)) std::ranges::shuffle(options.hosts, random_);
  options.radix = 2 + static_cast<Rank>(once_in(2) ? below(3) : below(31));
  options.linger = std::chrono::microseconds(once_in(2) ? 0 : 1000);
  options.fusion_threshold = once_in(3) ? 0 : once_in(2) ? 256 : 1 << 20;
  constexpr std::int64_t kCacheLeast[] = {0, 1, 1, 2, 4, 1024};
  options.cache_least = kCacheLeast[below(6)];
  options.full_join = once_in(4);
  options.together = 1 + below(4);
  if (once_in(8)) options.stall_report = std::chrono::milliseconds(200);
  script_.regular = options.stall_report == Duration{};
  script_.step = std::chrono::microseconds(options.stall_report > Duration{} ? 10000 : below(3) * 100);
  script_.actions_in_8 = 1 + below(7);
  if (once_in(2)) {
    for (unsigned i = 0; i < 1u + below(3); ++i) script_.stragglers[some_rank()] = true;
  }
  const bool large = script_.size > 200;
  per_phase_ = large ? 4 + below(4) : 4 + below(12);
  names_ = per_phase_ + below(2 * per_phase_);
  changes_ = once_in(3) ? 2 : 20;
}

}  // namespace rueda
