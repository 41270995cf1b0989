// SPDX-License-Identifier: Apache-2.0
#include "tests/support/conformance/conformance.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "rueda/rueda.h"
#include "tests/support/conformance/batch.h"
#include "tests/support/conformance/conformance_values.h"
#include "tests/support/conformance/values.h"
#include "tests/support/sanitized.h"

namespace rueda {
namespace {

constexpr std::int64_t kManyElements = sanitized(4'003, 20'011);  // a prime

struct AllreduceCase {
  DataType dtype;
  ReduceOp op;
  Shape shape;
  bool in_place;
  bool strided;
  double prescale = 1.0;
  double postscale = 1.0;
  bool measure = false;
};

std::string describe(const AllreduceCase& c) {
  return fmt::format("allreduce {} {} {} {}{} x {} x {}{}", to_string(c.dtype), to_string(c.op),
                     to_string(c.shape), c.in_place ? "in place" : "out of place",
                     c.shape.size() > 2 && c.strided ? " strided" : "", c.prescale, c.postscale,
                     c.measure ? " measured" : "");
}

// What all ranks have counted together.
void check_square_sum(Runtime& runtime, const std::string& what, const Handle& handle,
                      const TestTensor& output) {
  double exact = 0, sum = handle.share_of_square_sum();
  for (std::int64_t i = 0; i < output.elements(); ++i) exact += output.get(i) * output.get(i);
  const TensorView view{&sum, DataType::float64, {}, {}};
  allreduce_async(what + " squares", view, view, {ReduceOp::sum}, runtime).wait();
  if (std::abs(sum - exact) <= 1e-12 * exact) return;
  throw std::runtime_error(fmt::format("{}: the sum of squares is {}, not {}", what, sum, exact));
}

void add_allreduce(ConformanceBatch& batch, Runtime& runtime, const AllreduceCase& c) {
  auto input = std::make_shared<TestTensor>(c.dtype, c.shape, c.strided);
  auto output = c.in_place ? input : std::make_shared<TestTensor>(c.dtype, c.shape, false);
  fill(*input, runtime.topology().rank);
  const std::string what = describe(c);
  batch.add(
      [=, &runtime] {
        const Reduction how{
            .op = c.op, .prescale_factor = c.prescale, .postscale_factor = c.postscale, .measure = c.measure};
        return allreduce_async(what, input->view(), output->view(), how, runtime);
      },
      [=, &runtime](const Handle& handle) {
        for (std::int64_t i = 0; i < output->elements(); ++i) {
          expect_near(what, c.dtype, i,
                      reference(c.dtype, c.op, runtime.topology().size, i, c.prescale, c.postscale),
                      output->get(i));
          if (!c.in_place && input->get(i) != own_value(c.dtype, runtime.topology().rank, i)) {
            throw std::runtime_error(what + ": the input was written to");
          }
        }
        if (!input->gaps_untouched() || !output->gaps_untouched())
          throw std::runtime_error(what + ": wrote beside the tensor");
        if (c.measure) check_square_sum(runtime, what, handle, *output);
      });
}

}  // namespace

void check_allreduce(Runtime& runtime) {
  ConformanceBatch batch(runtime);
  for (DataType dtype : data_types()) {
    for (ReduceOp op : kReduceOps) {
      if (dtype == DataType::boolean && op == ReduceOp::average) continue;
      for (const Shape& shape : {Shape{}, Shape{0}, Shape{3, 5}, Shape{1000}, Shape{kManyElements}}) {
        for (bool in_place : {true, false})
          add_allreduce(batch, runtime, {dtype, op, shape, in_place, false});
      }
      add_allreduce(batch, runtime, {dtype, op, {4, 6, 10}, true, true});
      add_allreduce(batch, runtime, {dtype, op, {4, 6, 10}, false, true});
      // Ranks may differ in strides. Each dtype and op once, in a fused Plan or alone.
      add_allreduce(batch, runtime, {dtype, op, {5, 13}, true, runtime.topology().rank % 2 == 1});
      if (!is_floating_point(dtype)) continue;
      for (const bool measure : {false, true}) {
        add_allreduce(batch, runtime, {dtype, op, {777}, true, false, 0.5, 4.0, measure});
        add_allreduce(batch, runtime, {dtype, op, {kManyElements}, false, false, 0.5, 4.0, measure});
      }
    }
    if (is_integer(dtype))
      add_allreduce(batch, runtime, {dtype, ReduceOp::sum, {777}, true, false, 1.0, 2.0});
  }
  batch.run();
  check_averages_of_integers(runtime, Operation::allreduce);
}

void check_allgather(Runtime& runtime) {
  const Rank ranks = runtime.topology().size;
  ConformanceBatch batch(runtime);
  for (DataType dtype : data_types()) {
    for (int variant = 0; variant < 4; ++variant) {
      auto rows = [=](Rank rank) {
        return variant == 0 ? 4 : variant == 1 ? 1 + 3 * rank : variant == 2 ? rank % 2 * 5 : 0;
      };
      auto input = std::make_shared<TestTensor>(dtype, Shape{rows(runtime.topology().rank), 7}, variant == 1);
      fill(*input, runtime.topology().rank);
      const std::string what = fmt::format("allgather {} {}", to_string(dtype), variant);
      batch.add([=, &runtime] { return allgather_async(what, input->view(), runtime); },
                [=](const Handle& handle) {
                  const TensorView& output = handle.output();
                  std::int64_t at = 0;
                  for (Rank rank = 0; rank < ranks; ++rank) {
                    for (std::int64_t i = 0; i < rows(rank) * 7; ++i, ++at) {
                      expect_near(what, dtype, at, own_value(dtype, rank, i),
                                  value_at(dtype, output.data, at));
                    }
                  }
                  if (output.shape != Shape{at / 7, 7})
                    throw std::runtime_error(what + ": shape " + to_string(output.shape));
                });
    }
  }
  batch.run();
}

void check_broadcast(Runtime& runtime) {
  ConformanceBatch batch(runtime);
  for (DataType dtype : data_types()) {
    for (Rank root = 0; root < runtime.topology().size; ++root) {
      for (bool strided : {false, true}) {
        for (std::int64_t rows : {0, 3, 70, 5000}) {
          auto input = std::make_shared<TestTensor>(dtype, Shape{rows, 3}, strided);
          auto output = rows == 3 ? input : std::make_shared<TestTensor>(dtype, Shape{rows, 3}, strided);
          fill(*input, runtime.topology().rank);
          const std::string what = fmt::format("broadcast {} from {} rows {}{}", to_string(dtype), root, rows,
                                               strided ? " strided" : "");
          batch.add(
              [=, &runtime] { return broadcast_async(what, input->view(), output->view(), root, runtime); },
              [=](const Handle&) {
                for (std::int64_t i = 0; i < output->elements(); ++i) {
                  expect_near(what, dtype, i, own_value(dtype, root, i), output->get(i));
                }
                if (!output->gaps_untouched()) throw std::runtime_error(what + ": wrote beside the tensor");
              });
        }
      }
    }
  }
  batch.run();
}

void check_alltoall(Runtime& runtime) {
  const Rank ranks = runtime.topology().size, own = runtime.topology().rank;
  ConformanceBatch batch(runtime);
  for (DataType dtype : data_types()) {
    for (int variant = 0; variant < 4; ++variant) {
      // Rows from `from` to `to`; variant 3 has everything at rank 0.
      auto rows = [=](Rank from, Rank to) -> std::int64_t {
        return variant == 0   ? 2
               : variant == 1 ? (from * 3 + to) % 4
               : variant == 2 ? 900 + from + to
                              : (to == 0 ? 3 : 0);
      };
      std::vector<std::int64_t> splits;
      for (Rank to = 0; to < ranks; ++to) splits.push_back(rows(own, to));
      const std::int64_t total = std::accumulate(splits.begin(), splits.end(), std::int64_t{0});
      auto input = std::make_shared<TestTensor>(dtype, Shape{total, 3}, variant == 1);
      fill(*input, own);
      const std::string what = fmt::format("alltoall {} {}", to_string(dtype), variant);
      batch.add(
          [=, &runtime] {
            return alltoall_async(what, input->view(), variant == 0 ? std::vector<std::int64_t>{} : splits,
                                  runtime);
          },
          [=](const Handle& handle) {
            std::int64_t at = 0;
            for (Rank from = 0; from < ranks; ++from) {
              std::int64_t first = 0;
              for (Rank to = 0; to < own; ++to) first += rows(from, to);
              if (handle.received_splits().at(from) != rows(from, own))
                throw std::runtime_error(what + ": wrong splits");
              for (std::int64_t i = 0; i < rows(from, own) * 3; ++i, ++at) {
                expect_near(what, dtype, at, own_value(dtype, from, first * 3 + i),
                            value_at(dtype, handle.output().data, at));
              }
            }
            if (handle.output().elements() != at) throw std::runtime_error(what + ": wrong size");
          });
    }
  }
  batch.run();
}

void check_reducescatter(Runtime& runtime) {
  const Rank ranks = runtime.topology().size, own = runtime.topology().rank;
  ConformanceBatch batch(runtime);
  for (DataType dtype : data_types()) {
    for (ReduceOp op : kReduceOps) {
      if (dtype == DataType::boolean && op == ReduceOp::average) continue;
      for (std::int64_t rows :
           {std::int64_t{ranks} * 2, std::int64_t{1}, std::int64_t{0}, std::int64_t{1001}}) {
        auto input = std::make_shared<TestTensor>(dtype, Shape{rows, 3}, rows == 1001);
        fill(*input, own);
        const std::string what =
            fmt::format("reducescatter {} {} rows {} of {}", to_string(dtype), to_string(op), rows, ranks);
        batch.add([=, &runtime] { return reducescatter_async(what, input->view(), {op}, runtime); },
                  [=](const Handle& handle) {
                    const std::int64_t mine = rows / ranks + (own < rows % ranks ? 1 : 0);
                    const std::int64_t first = rows / ranks * own + std::min<std::int64_t>(own, rows % ranks);
                    if (handle.output().shape != Shape{mine, 3})
                      throw std::runtime_error(what + ": wrong shape");
                    for (std::int64_t i = 0; i < mine * 3; ++i) {
                      expect_near(what, dtype, i, reference(dtype, op, ranks, first * 3 + i),
                                  value_at(dtype, handle.output().data, i));
                    }
                  });
      }
    }
  }
  batch.run();
  check_averages_of_integers(runtime, Operation::reducescatter);
}

void check_strides(Runtime& runtime) {
  // One at a time, so that each is a Plan of its own: strided on one rank, contiguous on the others.
  const Rank ranks = runtime.topology().size;
  for (Rank odd = 0; odd < ranks; ++odd) {
    ConformanceBatch batch(runtime);
    add_allreduce(batch, runtime,
                  {DataType::float32, ReduceOp::sum, {5, 13}, true, runtime.topology().rank == odd});
    batch.run();
  }
}

void check_large(Runtime& runtime) {
  const std::int64_t count = (std::int64_t{1} << 31) + 12345,
                     probe = 1'000'003;  // probe: a prime, to look at some elements
  const Rank rank = runtime.topology().rank, ranks = runtime.topology().size;
  std::vector<std::int8_t> values(count);
  for (std::int64_t i = 0; i < count; ++i) values[i] = static_cast<std::int8_t>((i % 13) + rank);
  allreduce_async("large", view(values), view(values), {ReduceOp::max}, runtime).wait();
  for (std::int64_t i = 0; i < count; i += probe) {
    expect_near("large allreduce", DataType::int8, i, static_cast<double>(i % 13 + ranks - 1), values[i]);
  }
  values.back() = static_cast<std::int8_t>(rank);
  broadcast_async("large", view(values), view(values), ranks - 1, runtime).wait();
  expect_near("large broadcast", DataType::int8, count - 1, ranks - 1, values.back());
  const std::int64_t part = count / ranks;
  for (std::int64_t i = 0; i < part; i += probe) values[i] = static_cast<std::int8_t>(rank + i % 7);
  const Handle gathered = allgather_async("large", view(std::span(values).first(part)), runtime);
  gathered.wait();
  for (Rank from = 0; from < ranks; ++from) {
    for (std::int64_t i = 0; i < part; i += probe) {
      expect_near("large allgather", DataType::int8, from * part + i, static_cast<double>(from + i % 7),
                  value_at(DataType::int8, gathered.output().data, from * part + i));
    }
  }
}

void check_barrier(Runtime& runtime) {
  for (int i = 0; i < 5; ++i) barrier_async(runtime).wait();
}

}  // namespace rueda
