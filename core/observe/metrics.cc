// SPDX-License-Identifier: Apache-2.0
#include "core/observe/metrics.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/time.h"

namespace rueda {

void Metrics::begin(Rank rank, Rank size, std::string host, std::int64_t fusion_threshold_bytes) {
  identity_ = {rank, size, std::move(host)};
  fusion_threshold(fusion_threshold_bytes);
  if (rank == 0) waited_ = std::make_unique<Waited[]>(static_cast<std::size_t>(size));
}

void Metrics::waited_for(Rank rank, double seconds) {
  RUEDA_ASSERT(waited_ != nullptr && rank >= 0 && rank < identity_.size);
  waited_[static_cast<std::size_t>(rank)].times.add();
  waited_[static_cast<std::size_t>(rank)].nanoseconds.add(
      static_cast<std::uint64_t>(std::clamp(seconds, 0.0, 1e9) * 1e9));
}

void Metrics::completed(Operation operation, std::uint64_t bytes, bool ok) {
  ByOperation& counts = operations_[static_cast<std::size_t>(operation)];
  (ok ? counts.completed : counts.failed).add();
  if (ok) counts.bytes.add(bytes);
}

void Metrics::use(const TuningParameters& parameters) {
  fusion_threshold(parameters.fusion_threshold);
  tuning_.linger.set(static_cast<std::uint64_t>(parameters.linger.count()));
  tuning_.chunk_bytes.set(static_cast<std::uint64_t>(parameters.chunk_bytes));
  tuning_.route_bytes.set(static_cast<std::uint64_t>(parameters.route_bytes));
  tuning_.times.set(1);
}

void Metrics::plan_started(std::size_t tensors, std::int64_t buffer_bytes) {
  plans_.count.add();
  plans_.in_flight.add();
  plans_.most_in_flight.set(std::max(plans_.most_in_flight.get(), plans_.in_flight.get()));
  if (tensors < 2) return;
  plans_.fused.add();
  plans_.fused_tensors.add(tensors);
  plans_.fused_bytes.add(static_cast<std::uint64_t>(buffer_bytes));
}

void Metrics::Durations::add(std::int64_t nanoseconds) {
  nanoseconds = std::max<std::int64_t>(nanoseconds, 0);
  const double seconds = static_cast<double>(nanoseconds) * 1e-9;
  const auto bound = std::ranges::lower_bound(Histogram::kBounds, seconds);
  counts_[static_cast<std::size_t>(bound - Histogram::kBounds.begin())].add();
  sum_.add(static_cast<std::uint64_t>(nanoseconds));
}

Histogram Metrics::Durations::snapshot() const {
  Histogram histogram;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    histogram.counts[i] = counts_[i].get();
    histogram.count += histogram.counts[i];
  }
  histogram.sum = static_cast<double>(sum_.get()) * 1e-9;
  return histogram;
}

void Metrics::use(const MetricsSnapshot::Membership& membership) {
  membership_.generations.set(membership.generations);
  membership_.lost.set(membership.lost);
  membership_.joined.set(membership.joined);
  membership_.nanoseconds_standing_still.set(
      static_cast<std::uint64_t>(membership.seconds_standing_still * 1e9));
}

MetricsSnapshot Metrics::snapshot() const {
  MetricsSnapshot result;
  result.rank = identity_.rank;
  result.size = identity_.size;
  result.host = identity_.host;
  for (int i = 0; i < kOperationCount; ++i) {
    const ByOperation& counts = operations_[static_cast<std::size_t>(i)];
    result.operations.push_back(
        {static_cast<Operation>(i), counts.completed.get(), counts.failed.get(), counts.bytes.get()});
  }
  result.negotiation = negotiation.snapshot();
  result.waiting = waiting.snapshot();
  result.data = data.snapshot();
  result.plans = plans_.count.get();
  result.fused_plans = plans_.fused.get();
  result.fused_tensors = plans_.fused_tensors.get();
  result.fused_bytes = plans_.fused_bytes.get();
  result.fusion_threshold = plans_.fusion_threshold.get();
  result.works_in_flight = plans_.in_flight.get();
  result.most_works_in_flight = plans_.most_in_flight.get();
  result.cache_hits = cache_hits.get();
  result.cache_misses = cache_misses.get();
  result.last_submission_ns = static_cast<std::int64_t>(last_submission.get());
  result.last_plan_ns = static_cast<std::int64_t>(last_plan.get());
  result.tuned = tuning_.times.get() != 0;
  result.parameters = {static_cast<std::int64_t>(result.fusion_threshold),
                       Duration(static_cast<Duration::rep>(tuning_.linger.get())),
                       static_cast<std::int64_t>(tuning_.chunk_bytes.get()),
                       static_cast<std::int64_t>(tuning_.route_bytes.get())};
  result.membership = {membership_.generations.get(), membership_.lost.get(), membership_.joined.get(),
                       static_cast<double>(membership_.nanoseconds_standing_still.get()) * 1e-9};
  for (Rank rank = 0; waited_ && rank < identity_.size; ++rank) {
    const Waited& waited = waited_[static_cast<std::size_t>(rank)];
    const std::uint64_t times = waited.times.get();
    if (times != 0)
      result.waited_for.push_back({rank, times, static_cast<double>(waited.nanoseconds.get()) * 1e-9});
  }
  std::ranges::stable_sort(result.waited_for, std::greater{}, &MetricsSnapshot::WaitedFor::seconds);
  return result;
}

}  // namespace rueda
