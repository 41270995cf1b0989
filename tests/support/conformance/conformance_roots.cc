// SPDX-License-Identifier: Apache-2.0
// Reduce, gather and scatter.
#include <fmt/format.h>

#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "rueda/rueda.h"
#include "tests/support/conformance/batch.h"
#include "tests/support/conformance/conformance.h"
#include "tests/support/conformance/conformance_values.h"
#include "tests/support/conformance/values.h"

namespace rueda {
namespace {

// Compares `rows` rows of 3 with those of `from`'s tensor from row `first` on; `at`: where they begin in the
// output.
void expect_rows(const std::string& what, const TensorView& output, std::int64_t at, Rank from,
                 std::int64_t first, std::int64_t rows) {
  for (std::int64_t i = 0; i < rows * 3; ++i)
    expect_near(what, output.dtype, at * 3 + i, own_value(output.dtype, from, first * 3 + i),
                value_at(output.dtype, output.data, at * 3 + i));
}

void expect_shape(const std::string& what, const Shape& shape, const Shape& expected) {
  if (shape != expected)
    throw std::runtime_error(what + ": shape " + to_string(shape) + ", not " + to_string(expected));
}

void add_reduce(ConformanceBatch& batch, Runtime& runtime, DataType dtype, ReduceOp op, Rank root,
                std::int64_t rows) {
  const Rank own = runtime.topology().rank, ranks = runtime.topology().size;
  const bool in_place = rows == 70, strided = rows == 3;
  auto input = std::make_shared<TestTensor>(dtype, Shape{rows, 3}, strided);
  auto output = in_place ? input : std::make_shared<TestTensor>(dtype, Shape{rows, 3}, strided);
  if (!in_place) fill(*output, own + ranks);
  fill(*input, own);
  const std::string what =
      fmt::format("reduce {} {} to {} of {} rows", to_string(dtype), to_string(op), root, rows);
  const bool given = own == root || rows == 70;  // others need not
  batch.add(
      [=, &runtime] {
        return reduce_async(what, input->view(), given ? output->view() : TensorView(), root, {op}, runtime);
      },
      [=](const Handle&) {
        for (std::int64_t i = 0; i < output->elements(); ++i) {
          const double before = own_value(dtype, in_place ? own : own + ranks, i);
          expect_near(what, dtype, i, own == root ? reference(dtype, op, ranks, i) : before, output->get(i));
        }
        if (!output->gaps_untouched()) throw std::runtime_error(what + ": wrote beside the tensor");
      });
}

}  // namespace

void check_reduce(Runtime& runtime) {
  ConformanceBatch batch(runtime);
  for (DataType dtype : data_types()) {
    for (ReduceOp op : kReduceOps) {
      if (dtype == DataType::boolean && op == ReduceOp::average) continue;
      for (Rank root = 0; root < runtime.topology().size; ++root) {
        for (std::int64_t rows : {0, 3, 70, 1'200}) add_reduce(batch, runtime, dtype, op, root, rows);
      }
    }
  }
  batch.run();
}

void check_gather(Runtime& runtime) {
  const Rank ranks = runtime.topology().size, own = runtime.topology().rank;
  ConformanceBatch batch(runtime);
  for (DataType dtype : data_types()) {
    for (Rank root = 0; root < ranks; ++root) {
      for (int variant = 0; variant < 3; ++variant) {
        auto rows = [=](Rank rank) -> std::int64_t {
          return variant == 0 ? 2 : variant == 1 ? (rank * 3 + 1) % 4 : 900 + rank;
        };
        auto input = std::make_shared<TestTensor>(dtype, Shape{rows(own), 3}, variant == 1);
        fill(*input, own);
        const std::string what = fmt::format("gather {} to {}, {}", to_string(dtype), root, variant);
        batch.add([=, &runtime] { return gather_async(what, input->view(), root, runtime); },
                  [=](const Handle& handle) {
                    std::int64_t at = 0;
                    for (Rank from = 0; from < ranks && own == root; ++from) {
                      expect_rows(what, handle.output(), at, from, 0, rows(from));
                      if (handle.received_splits().at(from) != rows(from))
                        throw std::runtime_error(what + ": wrong splits");
                      at += rows(from);
                    }
                    expect_shape(what, handle.output().shape, {at, 3});
                  });
      }
    }
  }
  batch.run();
}

void check_scatter(Runtime& runtime) {
  const Rank ranks = runtime.topology().size, own = runtime.topology().rank;
  ConformanceBatch batch(runtime);
  for (DataType dtype : data_types()) {
    for (Rank root = 0; root < ranks; ++root) {
      for (int variant = 0; variant < 3; ++variant) {
        std::vector<std::int64_t> splits;
        for (Rank to = 0; to < ranks; ++to)
          splits.push_back(variant == 0 ? 2 : variant == 1 ? (to * 3 + 1) % 4 : 900 + to);
        const auto begin = splits.begin();
        const std::int64_t first = std::accumulate(begin, begin + own, std::int64_t{0}),
                           mine = splits.at(own);
        const std::int64_t all = std::accumulate(begin, splits.end(), std::int64_t{0});
        auto input =
            std::make_shared<TestTensor>(dtype, Shape{own == root ? all : 0, 3}, variant == 1 && own == root);
        fill(*input, own);
        if (own != root || variant == 0) splits.clear();
        const std::string what = fmt::format("scatter {} from {}, {}", to_string(dtype), root, variant);
        batch.add([=, &runtime] { return scatter_async(what, input->view(), root, splits, runtime); },
                  [=](const Handle& handle) {
                    expect_shape(what, handle.output().shape, {mine, 3});
                    expect_rows(what, handle.output(), 0, root, first, mine);
                  });
      }
    }
  }
  batch.run();
}

}  // namespace rueda
