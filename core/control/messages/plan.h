// SPDX-License-Identifier: Apache-2.0
// The next steps of every rank, as rank 0 decided. Plans are numbered and reach every rank in the same order.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/control/messages/id_set.h"
#include "core/control/messages/request.h"
#include "rueda/status.h"

namespace rueda {

// A tensor of a Plan and its offset in the fused buffer.
struct PlanTensor {
  CacheId id = 0;       // under which it may be requested from now on; 0: none
  bool in_full = true;  // the request travels with the Plan; if not, the receiver knows it by its id
  SharedRequest request;
  std::int64_t offset = 0;  // bytes; follows from the sizes of the tensors before it

  const std::string& name() const { return request->name; }
  std::int64_t elements() const { return element_count(request->shape); }  // ragged operations: of some rank

  friend bool operator==(const PlanTensor& a, const PlanTensor& b) {
    const bool same = a.request == b.request || (a.request && b.request && *a.request == *b.request);
    return a.id == b.id && same && a.offset == b.offset;
  }
};

// How ranks combine a vector by messages: each passing parts of it to its neighbour, or in pairs at growing
// distances, whole vectors or ever smaller halves (ops/schedules/recursive_doubling.h).
enum class Pairing : std::uint8_t { none, doubling, halving };

// Purpose: one operation on one or several tensors of equal dtype, reduction, scale, device and graph,
// measured or not. A Plan whose status is not ok carries out nothing: it completes its tensors with that
// Status, on every rank, in order. A plain value.
struct Plan {
  std::uint64_t number = 0;
  Status status;
  RankSet joined;  // only with `measure`: joined members, which report no share of the sum of squares
  Pairing pairing = Pairing::none;  // of an allreduce
  std::uint8_t backend = 0;         // index into RuntimeComponents::backends, the same on all ranks
  std::uint8_t area = 0;            // of shared memory, below kAreas: Plans take turns in them
  std::int64_t chunk_bytes = 0;     // messages of a Work carry at most so many
  std::int64_t result = 0;          // join: the last rank; add_process_set: the new set's id
  std::vector<CacheId> evicted;     // ids that end with this Plan
  std::vector<PlanTensor> tensors;

  // Not on their way; the receiver finds them out. First what its tensors' requests have in common.
  ProcessSetId process_set = kWorld;
  Operation operation = Operation::allreduce;  // as which those of the requests are carried out
  DataType dtype = DataType::float32;
  ReduceOp reduce_op = ReduceOp::sum;
  double prescale_factor = 1.0;
  double postscale_factor = 1.0;
  ReductionOrder reduction_order = ReductionOrder::any;
  Compression compression = Compression::none;
  double compression_share = 1.0;  // topk; such a tensor is alone
  bool measure = false;
  DeviceKind device = DeviceKind::host;    // where the tensors of all ranks are
  std::uint32_t capture = 0;               // the number of the graph that is to hold it; 0: none
  Rank root = 0;                           // of a broadcast
  std::int64_t buffer_bytes = 0;           // of the fused buffer; a single tensor needs none unless strided
  std::shared_ptr<const RankSet> members;  // of the process set

  friend bool operator==(const Plan&, const Plan&);  // whether they order the same
};

// Names the graph that holds a Plan, for whoever keeps something for each.
using GraphKey = std::pair<ProcessSetId, std::uint32_t>;
inline GraphKey graph_of(const Plan& plan) { return {plan.process_set, plan.capture}; }

// Offsets in a fused buffer are multiples of this, so that kernels work on whole cache lines.
inline constexpr std::int64_t kFusionAlignment = 64;

// So many Plans may use shared memory without waiting for each other. If rank 0 has no Plan under way, the
// next Plan uses the first area, which is still in caches.
inline constexpr std::uint8_t kAreas = 2;

// The Works of two Plans so many numbers apart do not run at the same time: what they send may look alike.
inline constexpr std::uint64_t kPlansApart = 1u << 15;

// The room a tensor takes in a fused buffer.
std::int64_t fused_bytes(const Request& request);

std::string_view to_string(Pairing pairing);
std::optional<Pairing> pairing_from(std::uint8_t value);

// Adds them behind others.
void append(std::vector<Plan>& plans, std::vector<Plan>&& more);

// Sets the fields of a Plan that all its tensors share, from one of their requests.
void take_terms(Plan& plan, const Request& request);
// True if operation, dtype, reduction, device, set and the like equal the Plan's.
bool shares_terms(const Plan& plan, const Request& request);
// True if the Plan is valid for its tensors, which then share its terms.
bool can_be(const Plan& plan);

// Gives the tensor its offset behind those that have theirs, and adds its room to the Plan's buffer_bytes.
void assign_offset(Plan& plan, PlanTensor& tensor);

void write(Writer& writer, const Plan& plan);
Plan read_plan(Reader& reader);

}  // namespace rueda
