// SPDX-License-Identifier: Apache-2.0
#include "core/control/plan.h"

#include "core/control/message.h"

namespace rueda {

void write(Writer& writer, const Plan& plan) {
  writer.put(plan.number);
  write(writer, plan.status);
  writer.put(plan.operation);
  writer.put(plan.dtype);
  writer.put(plan.reduce_op);
  writer.put(plan.prescale_factor);
  writer.put(plan.postscale_factor);
  writer.put(plan.root);
  writer.put(plan.backend);
  writer.put(plan.chunk_bytes);
  writer.put(plan.buffer_bytes);
  writer.put_count(plan.tensors.size());
  for (const PlanTensor& tensor : plan.tensors) {
    writer.put_string(tensor.name);
    writer.put(tensor.elements);
    writer.put(tensor.offset);
  }
}

Plan read_plan(Reader& reader) {
  Plan plan;
  plan.number = reader.get<std::uint64_t>();
  plan.status = read_status(reader);
  plan.operation = reader.get_enum(operation_from);
  plan.dtype = reader.get_enum(data_type_from);
  plan.reduce_op = reader.get_enum(reduce_op_from);
  plan.prescale_factor = reader.get<double>();
  plan.postscale_factor = reader.get<double>();
  plan.root = reader.get<Rank>();
  plan.backend = reader.get<std::uint8_t>();
  plan.chunk_bytes = reader.get<std::int64_t>();
  plan.buffer_bytes = reader.get<std::int64_t>();
  if (plan.chunk_bytes <= 0 && plan.status.ok()) reader.fail();
  plan.tensors.resize(reader.get_count(sizeof(std::uint32_t) + 2 * sizeof(std::int64_t)));
  for (PlanTensor& tensor : plan.tensors) {
    tensor.name = reader.get_string();
    tensor.elements = reader.get<std::int64_t>();
    tensor.offset = reader.get<std::int64_t>();
    if (tensor.elements < 0 || tensor.offset < 0 || tensor.offset > plan.buffer_bytes) reader.fail();
  }
  return plan;
}

}  // namespace rueda
