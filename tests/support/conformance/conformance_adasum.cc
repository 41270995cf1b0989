// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <utility>

#include "core/engine/runtime.h"
#include "rueda/rueda.h"
#include "tests/support/conformance/adasum_reference.h"
#include "tests/support/conformance/conformance.h"
#include "tests/support/conformance/values.h"

namespace rueda {
namespace {

struct AdasumCase {
  DataType dtype;
  Shape shape;
  bool in_place;
  bool strided;
  double prescale = 1.0;
  double postscale = 1.0;

  std::string name() const {
    return fmt::format("adasum {} {} {}{} x {} x {}", to_string(dtype), to_string(shape),
                       in_place ? "in place" : "out of place", shape.size() > 2 && strided ? " strided" : "",
                       prescale, postscale);
  }
};

std::vector<AdasumCase> cases(Rank rank) {
  std::vector<AdasumCase> all;
  for (DataType dtype : {DataType::float16, DataType::bfloat16, DataType::float32, DataType::float64}) {
    for (bool in_place : {true, false}) {
      for (const Shape& shape : {Shape{}, Shape{0}, Shape{3, 5}, Shape{1000}, Shape{20011}})
        all.push_back({dtype, shape, in_place, false});
      all.push_back({dtype, {4, 6, 10}, in_place, true});
    }
    all.push_back({dtype, {5, 13}, true, rank % 2 == 1});  // ranks may differ in strides
    all.push_back({dtype, {777}, true, false, 0.5, 4.0});
  }
  return all;
}

// A tensor of a rank: neither parallel nor orthogonal to those of others, and of another length.
std::shared_ptr<TestTensor> tensor_of(const AdasumCase& c, Rank rank, bool strided) {
  auto tensor = std::make_shared<TestTensor>(c.dtype, c.shape, strided);
  for (std::int64_t i = 0; i < tensor->elements(); ++i) {
    const auto common = static_cast<double>(i % 11) - 5;
    const auto own = static_cast<double>((i * 31 + rank * 17 + i / 7) % 23) - 11;
    tensor->set(i, (common + own * (rank + 1)) / 16);
  }
  return tensor;
}

// Errors are relative to the values that went in: factors may cancel them.
void check(const AdasumCase& c, const TestTensor& output, Rank ranks) {
  std::vector<Vector> vectors;
  Vector size(static_cast<std::size_t>(output.elements()));
  for (Rank rank = 0; rank < ranks; ++rank) {
    const auto tensor = tensor_of(c, rank, false);
    Vector& vector = vectors.emplace_back();
    for (std::int64_t i = 0; i < tensor->elements(); ++i) {
      vector.push_back(tensor->get(i) * c.prescale);
      size[static_cast<std::size_t>(i)] += std::abs(vector.back() * c.postscale);
    }
  }
  const Vector result = adasum_of(std::move(vectors));
  const double inner = c.dtype == DataType::float64 ? 1e-14 : 1e-6;
  for (std::size_t i = 0; i < result.size(); ++i) {
    const double expected = result[i] * c.postscale, got = output.get(static_cast<std::int64_t>(i));
    const double tolerance = relative_tolerance(c.dtype) * std::abs(expected) + inner * size[i];
    if (std::abs(got - expected) <= tolerance) continue;
    throw std::runtime_error(fmt::format("{}: element {}: expected {}, got {}", c.name(), i, expected, got));
  }
}

}  // namespace

// All in flight together, submitted in an order of its own by each rank.
void check_adasum(Runtime& runtime) {
  const Rank rank = runtime.topology().rank, ranks = runtime.topology().size;
  const std::vector<AdasumCase> all = cases(rank);
  std::vector<std::shared_ptr<TestTensor>> inputs, outputs;
  for (const AdasumCase& c : all) {
    inputs.push_back(tensor_of(c, rank, c.strided));
    outputs.push_back(c.in_place ? inputs.back() : std::make_shared<TestTensor>(c.dtype, c.shape));
  }
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(static_cast<std::uint32_t>(rank) * 7919 + 1));
  std::vector<Handle> handles(all.size());
  for (std::size_t i : order) {
    const AdasumCase& c = all[i];
    handles[i] = allreduce_async(c.name(), inputs[i]->view(), outputs[i]->view(),
                                 {ReduceOp::adasum, c.prescale, c.postscale}, runtime);
  }
  for (const Handle& handle : handles) static_cast<void>(handle.wait_status());  // before tensors are freed
  for (std::size_t i = 0; i < all.size(); ++i) {
    handles[i].wait();
    check(all[i], *outputs[i], ranks);
    if (!inputs[i]->gaps_untouched() || !outputs[i]->gaps_untouched())
      throw std::runtime_error(all[i].name() + ": wrote beside the tensor");
    const auto before = tensor_of(all[i], rank, all[i].strided);
    for (std::int64_t e = 0; !all[i].in_place && e < before->elements(); ++e) {
      if (inputs[i]->get(e) != before->get(e))
        throw std::runtime_error(all[i].name() + ": the input was written to");
    }
  }
}

}  // namespace rueda
