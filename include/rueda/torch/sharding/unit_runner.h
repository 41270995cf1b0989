// SPDX-License-Identifier: Apache-2.0
// Marks the layers of a module as units of a ShardedModel.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace torch::nn {
class Module;
}  // namespace torch::nn

namespace rueda {

class UnitScheduler;

// Purpose: one call of a unit, or of the whole model. The parameters of the unit are gathered while it
// lives. UnitRunner makes it on the stack of the thread that trains.
class UnitCall {
 public:
  // Begins the call of `unit`, or of the whole model if `unit` is null. For a module that is no unit it
  // does nothing.
  UnitCall(std::shared_ptr<UnitScheduler> units, const torch::nn::Module* unit);
  ~UnitCall();
  UnitCall(const UnitCall&) = delete;
  UnitCall& operator=(const UnitCall&) = delete;

  // Calls `forward` and returns its result.
  template <class Forward>
  auto run(Forward&& forward) {
    auto result = forward();
    watch(result);
    return result;
  }

 private:
  void watch(const at::Tensor& output);
  template <class Element>
  void watch(const std::vector<Element>& outputs) {
    for (const Element& output : outputs) watch(output);
  }
  template <class... Elements>
  void watch(const std::tuple<Elements...>& outputs) {
    std::apply([&](const Elements&... each) { (watch(each), ...); }, outputs);
  }
  // Only a whole pass may return something other than tensors.
  template <class Other>
  requires(!std::is_convertible_v<const Other&, const at::Tensor&>) void watch(const Other&) const {
    check_root();
  }
  void check_root() const;

  const std::shared_ptr<UnitScheduler> units_;
  std::optional<std::size_t> unit_;
};

// Purpose: lets a module be sharded. The module calls it around each unit: runner(*layer, [&] { return
// layer->forward(x); }). Without a ShardedModel it only calls the function. A plain value.
class UnitRunner {
 public:
  UnitRunner() = default;
  // ShardedModelPart::runner() makes it.
  explicit UnitRunner(std::weak_ptr<UnitScheduler> units) : units_(std::move(units)) {}

  // Calls `forward` and returns its result: a tensor, or a vector or tuple of tensors.
  template <class Forward>
  auto operator()(const torch::nn::Module& unit, Forward&& forward) const {
    std::shared_ptr<UnitScheduler> units = units_.lock();
    return units ? UnitCall(std::move(units), &unit).run(std::forward<Forward>(forward)) : forward();
  }

 private:
  std::weak_ptr<UnitScheduler> units_;
};

}  // namespace rueda
