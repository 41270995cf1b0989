// SPDX-License-Identifier: Apache-2.0
#include "core/control/messages/plan.h"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "core/base/operation_traits.h"
#include "core/control/messages/control_message.h"
#include "core/control/messages/rank_set_message.h"

namespace rueda {
namespace {

PlanTensor read_tensor(Reader& reader) {
  PlanTensor tensor;
  tensor.id = reader.get<CacheId>();
  tensor.in_full = reader.get<std::uint8_t>() != 0;
  if (tensor.in_full) tensor.request = std::make_shared<const Request>(read_request(reader));
  if (tensor.id == 0 && !tensor.in_full) reader.fail();
  return tensor;
}

}  // namespace

std::int64_t fused_bytes(const Request& request) {
  return (bytes_of(request) + kFusionAlignment - 1) / kFusionAlignment * kFusionAlignment;
}

std::string_view to_string(Pairing pairing) {
  switch (pairing) {
    case Pairing::none: return "none";
    case Pairing::doubling: return "doubling";
    case Pairing::halving: return "halving";
  }
  return "?";
}

std::optional<Pairing> pairing_from(std::uint8_t value) {
  if (value > static_cast<std::uint8_t>(Pairing::halving)) return std::nullopt;
  return static_cast<Pairing>(value);
}

void assign_offset(Plan& plan, PlanTensor& tensor) {
  if (traits(plan.operation).ragged_first_axis) return;
  tensor.offset = plan.buffer_bytes;
  plan.buffer_bytes += fused_bytes(*tensor.request);
}

void append(std::vector<Plan>& plans, std::vector<Plan>&& more) {
  if (plans.empty()) return plans.swap(more);
  plans.insert(plans.end(), std::move_iterator(more.begin()), std::move_iterator(more.end()));
}

bool operator==(const Plan& a, const Plan& b) {
  auto words = [](const Plan& p) {
    return std::tie(p.number, p.status, p.process_set, p.operation, p.dtype, p.reduce_op, p.prescale_factor,
                    p.postscale_factor, p.reduction_order, p.compression, p.compression_share, p.measure,
                    p.device, p.capture, p.joined, p.pairing, p.root, p.backend, p.area, p.chunk_bytes,
                    p.result, p.evicted, p.tensors);
  };
  return words(a) == words(b);
}

namespace {

// All but the operation, of a Request or of a Plan.
template <class Terms>
auto other_terms(Terms& terms) {
  return std::tie(terms.process_set, terms.dtype, terms.reduce_op, terms.prescale_factor,
                  terms.postscale_factor, terms.reduction_order, terms.compression, terms.measure,
                  terms.device, terms.capture);
}

}  // namespace

bool shares_terms(const Plan& plan, const Request& request) {
  return plan.operation == traits(request.operation).carried_out_as &&
         other_terms(plan) == other_terms(request);
}

void take_terms(Plan& plan, const Request& request) {
  plan.operation = traits(request.operation).carried_out_as;
  other_terms(plan) = other_terms(request);
  plan.compression_share = request.compression_share;
  plan.root = request.root;
}

bool can_be(const Plan& plan) {
  const bool alone = plan.tensors.size() == 1;
  const bool pairs = plan.pairing != Pairing::none;
  if (pairs && (plan.operation != Operation::allreduce || plan.reduce_op == ReduceOp::adasum)) return false;
  if (plan.compression == Compression::topk && (!alone || plan.reduction_order != ReductionOrder::any))
    return false;
  auto agrees = [&](const PlanTensor& tensor) { return shares_terms(plan, *tensor.request); };
  return alone || (traits(plan.operation).fusable && std::ranges::all_of(plan.tensors, agrees));
}

void write(Writer& writer, const Plan& plan) {
  writer.put(plan.number);
  write(writer, plan.status);
  write(writer, plan.joined);
  writer.put(plan.pairing);
  writer.put(plan.backend);
  writer.put(plan.area);
  writer.put(plan.chunk_bytes);
  writer.put(plan.result);
  writer.put_count(plan.evicted.size());
  for (CacheId id : plan.evicted) writer.put(id);
  writer.put_count(plan.tensors.size());
  for (const PlanTensor& tensor : plan.tensors) {
    writer.put(tensor.id);
    writer.put(static_cast<std::uint8_t>(tensor.in_full));
    if (tensor.in_full) write(writer, *tensor.request);
  }
}

Plan read_plan(Reader& reader) {
  Plan plan;
  plan.number = reader.get<std::uint64_t>();
  plan.status = read_status(reader);
  plan.joined = read_rank_set(reader);
  plan.pairing = reader.get_enum(pairing_from);
  plan.backend = reader.get<std::uint8_t>();
  plan.area = reader.get<std::uint8_t>();
  if (plan.area >= kAreas) reader.fail();
  plan.chunk_bytes = reader.get<std::int64_t>();
  plan.result = reader.get<std::int64_t>();
  if (plan.chunk_bytes <= 0 && plan.status.ok()) reader.fail();
  plan.evicted = reader.get_list<CacheId>(sizeof(CacheId), [](Reader& r) { return r.get<CacheId>(); });
  plan.tensors = reader.get_list<PlanTensor>(sizeof(CacheId) + 1, read_tensor);
  if (plan.tensors.empty()) reader.fail();
  return plan;
}

}  // namespace rueda
