// SPDX-License-Identifier: Apache-2.0
#include "tests/support/conformance/device_conformance.h"

#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "core/base/operation_traits.h"
#include "rueda/rueda.h"
#include "tests/support/conformance/conformance_values.h"

namespace rueda {
namespace {

// Purpose: a program's own stream on the device, and its way of putting values there and looking at them.
class Program {
 public:
  Program(Runtime& runtime, Device& device)
      : runtime_(runtime), device_(device), queue_(device.make_queue()) {}

  using Memory = std::shared_ptr<std::byte>;
  Memory memory(DataType dtype, std::int64_t elements) {
    return device_.memory(static_cast<std::size_t>(elements) * size_of(dtype) + 1);
  }
  // The values of rank `rank`; they are there when the stream has come so far.
  Memory tensor(DataType dtype, std::int64_t elements, Rank rank) {
    const auto bytes = static_cast<std::size_t>(elements) * size_of(dtype);
    uploads_.push_back(device_.pinned(bytes + 1));
    for (std::int64_t i = 0; i < elements; ++i)
      set_value(dtype, uploads_.back().get(), i, own_value(dtype, rank, i));
    Memory memory = device_.memory(bytes + 1);
    if (bytes > 0) queue_->copy(memory.get(), uploads_.back().get(), bytes);
    return memory;
  }
  // Waits for what the operation left there.
  std::vector<std::byte> values(const Handle& handle, const std::byte* memory, std::size_t bytes) {
    if (!handle.fence()) throw std::runtime_error("a result on a device comes with a fence");
    handle.fence()->hold_back(queue_->stream());
    const Memory here = device_.pinned(bytes + 1);
    if (bytes > 0) queue_->copy(here.get(), memory, bytes);
    const auto done = queue_->record();
    while (!done->passed()) std::this_thread::yield();
    return {here.get(), here.get() + bytes};
  }

  Submission submission(Operation operation, std::string name, DataType dtype, Shape shape,
                        const Memory& input, const Memory& output) {
    Submission submission;
    Request& request = submission.request;
    request.name = std::move(name);
    request.operation = operation;
    request.dtype = dtype;
    request.shape = shape;
    request.device = DeviceKind::cuda;
    submission.input = {input.get(), dtype, shape};
    submission.output = {output.get(), dtype, shape, {}};
    submission.device = device_.number();
    submission.stream = queue_->stream();
    submission.owner = std::make_shared<std::vector<Memory>>(std::vector{input, output});
    if (!output) {
      submission.output = {};
      auto made = std::make_shared<Memory>();
      submission.owner = std::make_shared<std::vector<std::shared_ptr<void>>>(
          std::vector<std::shared_ptr<void>>{input, made});
      submission.allocate = [this, made](DataType type, const Shape& of) {
        *made = memory(type, element_count(of));
        outputs_.push_back(*made);
        return TensorView{made->get(), type, of, {}};
      };
    }
    return submission;
  }
  Handle submit(Submission&& submission) { return runtime_.submit(std::move(submission)); }

 private:
  Runtime& runtime_;
  Device& device_;
  std::unique_ptr<DeviceQueue> queue_;
  std::vector<Memory> uploads_;
  std::vector<Memory> outputs_;  // the background thread's until the operation is complete
};

using Expected = std::function<double(std::int64_t i)>;

void compare(const std::string& what, DataType dtype, const std::vector<std::byte>& values,
             std::int64_t elements, const Expected& expected) {
  const auto bytes = static_cast<std::size_t>(elements) * size_of(dtype);
  if (values.size() != bytes) throw std::runtime_error(what + ": another number of elements");
  for (std::int64_t i = 0; i < elements; ++i)
    expect_near(what, dtype, i, expected(i), value_at(dtype, values.data(), i));
}

struct Reduced {
  std::string what;
  DataType dtype;
  ReduceOp op;
  std::int64_t elements;
  bool in_place;
  double prescale = 1.0;
  double postscale = 1.0;
  Program::Memory output;
  Handle handle;
};

std::vector<Reduced> reductions() {
  using enum DataType;
  using enum ReduceOp;
  std::vector<Reduced> cases;
  for (const DataType dtype :
       {uint8, int8, int16, int32, int64, float16, bfloat16, float32, float64, boolean}) {
    for (const ReduceOp op : {sum, average, min, max, product}) {
      if (!can_reduce(Operation::allreduce, dtype, op)) continue;
      for (const std::int64_t elements : {0, 1, 1003})
        cases.push_back({"", dtype, op, elements, elements % 2 == 1});
    }
    if (is_floating_point(dtype)) cases.push_back({"", dtype, sum, 517, true, 0.5, 4.0});
    if (is_floating_point(dtype)) cases.push_back({"", dtype, average, 517, false, 2.0, 0.25});
    if (is_integer(dtype)) cases.push_back({"", dtype, sum, 33, false, 1.0, 2.0});
  }
  cases.push_back({"", float32, average, 300'000, true});
  for (std::size_t i = 0; i < cases.size(); ++i) {
    cases[i].what = fmt::format("device allreduce {}: {} {} of {}", i, to_string(cases[i].dtype),
                                to_string(cases[i].op), cases[i].elements);
  }
  return cases;
}

}  // namespace

// All in flight together, so that some are fused.
void check_device_allreduce(Runtime& runtime, Device& device) {
  Program program(runtime, device);
  const Rank rank = runtime.topology().rank, ranks = runtime.topology().size;
  std::vector<Reduced> cases = reductions();
  for (Reduced& each : cases) {
    const Program::Memory input = program.tensor(each.dtype, each.elements, rank);
    each.output = each.in_place ? input : program.memory(each.dtype, each.elements);
    Submission submission =
        program.submission(Operation::allreduce, each.what, each.dtype, {each.elements}, input, each.output);
    submission.request.reduce_op = each.op;
    submission.request.prescale_factor = each.prescale;
    submission.request.postscale_factor = each.postscale;
    each.handle = program.submit(std::move(submission));
  }
  for (Reduced& each : cases) {
    each.handle.wait();
    const auto bytes = static_cast<std::size_t>(each.elements) * size_of(each.dtype);
    compare(each.what, each.dtype, program.values(each.handle, each.output.get(), bytes), each.elements,
            [&](std::int64_t i) {
              return reference(each.dtype, each.op, ranks, i, each.prescale, each.postscale);
            });
  }
}

namespace {

void check_broadcast(Program& program, DataType dtype, Rank rank, Rank root) {
  const std::string what = fmt::format("device broadcast {} from {}", to_string(dtype), root);
  const bool in_place = root % 2 == 0;
  const Program::Memory input = program.tensor(dtype, 35, rank);
  const Program::Memory output = in_place ? input : program.memory(dtype, 35);
  Submission submission = program.submission(Operation::broadcast, what, dtype, {5, 7}, input, output);
  submission.request.root = root;
  const Handle handle = program.submit(std::move(submission));
  handle.wait();
  compare(what, dtype, program.values(handle, output.get(), 35 * size_of(dtype)), 35,
          [&](std::int64_t i) { return own_value(dtype, root, i); });
}

// What rank r has are the first rows(r) of its rows; of no rows in one case.
void check_allgather(Program& program, DataType dtype, Rank rank, Rank ranks, std::int64_t step) {
  const std::string what = fmt::format("device allgather {} {}", to_string(dtype), step);
  auto rows = [&](Rank of) { return step * of; };
  const Program::Memory input = program.tensor(dtype, rows(rank) * 3, rank);
  const Handle handle =
      program.submit(program.submission(Operation::allgather, what, dtype, {rows(rank), 3}, input, nullptr));
  handle.wait();
  std::vector<double> expected;
  for (Rank from = 0; from < ranks; ++from) {
    for (std::int64_t i = 0; i < rows(from) * 3; ++i) expected.push_back(own_value(dtype, from, i));
  }
  const TensorView& output = handle.output();
  compare(what, dtype, program.values(handle, static_cast<std::byte*>(output.data), output.bytes()),
          static_cast<std::int64_t>(expected.size()),
          [&](std::int64_t i) { return expected[static_cast<std::size_t>(i)]; });
}

// Rank r sends to + 1 rows to rank `to`.
void check_alltoall(Program& program, DataType dtype, Rank rank, Rank ranks) {
  const std::string what = fmt::format("device alltoall {}", to_string(dtype));
  std::vector<std::int64_t> splits(static_cast<std::size_t>(ranks));
  std::int64_t rows = 0, before = 0;
  for (Rank to = 0; to < ranks; ++to) {
    if (to < rank) before += to + 1;
    rows += splits[static_cast<std::size_t>(to)] = to + 1;
  }
  const Program::Memory input = program.tensor(dtype, rows * 2, rank);
  Submission submission = program.submission(Operation::alltoall, what, dtype, {rows, 2}, input, nullptr);
  submission.splits = splits;
  const Handle handle = program.submit(std::move(submission));
  handle.wait();
  if (handle.received_splits() != std::vector<std::int64_t>(static_cast<std::size_t>(ranks), rank + 1))
    throw std::runtime_error(what + ": other numbers of rows than were sent");
  const std::int64_t each = (rank + 1) * 2;
  const TensorView& output = handle.output();
  compare(
      what, dtype, program.values(handle, static_cast<std::byte*>(output.data), output.bytes()), each * ranks,
      [&](std::int64_t i) { return own_value(dtype, static_cast<Rank>(i / each), before * 2 + i % each); });
}

// Rows that do not divide: the first ranks have one more.
void check_reducescatter(Program& program, DataType dtype, ReduceOp op, Rank rank, Rank ranks,
                         std::int64_t rows) {
  const std::string what =
      fmt::format("device reducescatter {} {} {}", to_string(dtype), to_string(op), rows);
  const Program::Memory input = program.tensor(dtype, rows * 4, rank);
  Submission submission =
      program.submission(Operation::reducescatter, what, dtype, {rows, 4}, input, nullptr);
  submission.request.reduce_op = op;
  const Handle handle = program.submit(std::move(submission));
  handle.wait();
  const std::int64_t mine = rows / ranks + (rank < rows % ranks ? 1 : 0);
  const std::int64_t first = rank * (rows / ranks) + std::min<std::int64_t>(rank, rows % ranks);
  const TensorView& output = handle.output();
  compare(what, dtype, program.values(handle, static_cast<std::byte*>(output.data), output.bytes()), mine * 4,
          [&](std::int64_t i) { return reference(dtype, op, ranks, first * 4 + i); });
}

}  // namespace

void check_device_exchange(Runtime& runtime, Device& device) {
  Program program(runtime, device);
  const Rank rank = runtime.topology().rank, ranks = runtime.topology().size;
  for (const DataType dtype : {DataType::float32, DataType::bfloat16, DataType::int16, DataType::boolean}) {
    for (Rank root = 0; root < ranks; ++root) check_broadcast(program, dtype, rank, root);
    for (const std::int64_t step : {0, 1, 40}) check_allgather(program, dtype, rank, ranks, step);
    check_alltoall(program, dtype, rank, ranks);
    for (const std::int64_t rows : {1, 8, 300}) {
      check_reducescatter(program, dtype, ReduceOp::sum, rank, ranks, rows);
      check_reducescatter(program, dtype, ReduceOp::max, rank, ranks, rows);
    }
  }
}

}  // namespace rueda
