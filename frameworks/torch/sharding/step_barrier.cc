// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/sharding/step_barrier.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/base/error.h"
#include "rueda/rueda.h"

namespace rueda {

void barrier_before(const std::string& name, const std::string& action, const std::string& subject,
                    const Status& own, Runtime& runtime) {
  const PhaseScope waiting(Phase::wait);
  const Topology& topology = runtime.topology();
  // An operation that a rank which has joined cannot take part in.
  std::vector<std::uint8_t> verdict{static_cast<std::uint8_t>(own.ok() ? 1 : 0)};
  Handle verdicts = allgather_async(name, view(verdict), runtime);
  const Status met = verdicts.wait_status();
  throw_if_error(own);
  throw_if_error(met);
  const TensorView& all = verdicts.output();
  if (all.elements() != topology.size) {
    refuse(fmt::format("rank {}: only {} of {} ranks {} {}; it cannot be used with join()", topology.rank,
                       all.elements(), topology.size, action, subject));
  }
  const auto* bytes = static_cast<const std::uint8_t*>(all.data);
  if (const auto* bad = std::find(bytes, bytes + topology.size, 0); bad != bytes + topology.size)
    refuse(
        fmt::format("rank {}: no {}, for rank {} refuses it; see there", topology.rank, action, bad - bytes));
}

void barrier_after_step(const std::string& name, bool well, Runtime& runtime) {
  const PhaseScope waiting(Phase::wait);
  const Topology& topology = runtime.topology();
  std::vector<std::int32_t> failed{well ? topology.size : topology.rank};
  allreduce_async(name, view(failed), view(failed), {ReduceOp::min}, runtime).wait();
  if (!well || failed.front() == topology.size) return;
  throw BackendError(Status::backend_error(
      fmt::format("rank {}: step() failed on rank {}, whose part of the parameters is not stepped; see there",
                  topology.rank, failed.front())));
}

}  // namespace rueda
