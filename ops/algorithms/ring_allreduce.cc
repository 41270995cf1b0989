// SPDX-License-Identifier: Apache-2.0
#include "ops/algorithms/ring_allreduce.h"

#include <algorithm>
#include <utility>

namespace rueda {

RingPass::Job ring_job(const Route& route, const ScaledReduction& reduction,
                       std::vector<std::int64_t> bounds) {
  RingPass::Job job;
  job.channel = route.channel;
  job.memory = route.memory;
  job.group = route.group;
  job.dtype = reduction.dtype;
  job.op = reduction.op;
  job.prescale = reduction.prescale;
  job.postscale = reduction.postscale;
  job.compression = reduction.compression;
  job.of_sums = reduction.of_sums;
  const auto element = static_cast<std::int64_t>(RingPass::bytes_of_partial_sum(job));
  job.schedule.rank = route.group.index;
  job.schedule.size = route.group.size;
  job.schedule.bounds = std::move(bounds);
  job.schedule.chunk_elements = std::max<std::int64_t>(1, route.chunk_bytes / element);
  return job;
}

RingPass::Job ring_allreduce_job(const Route& route, const ScaledReduction& reduction, const void* input,
                                 void* output, std::int64_t elements) {
  RingPass::Job job =
      ring_job(route, reduction, RingSchedule::line_bounds(elements, route.group.size, reduction.dtype));
  job.input = static_cast<const std::byte*>(input);
  job.output = static_cast<std::byte*>(output);
  return job;
}

}  // namespace rueda
