// SPDX-License-Identifier: Apache-2.0
// How a module says which of its layers are units of a ShardedModel.
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

// Purpose: one call of a unit, or of the whole model; the unit's parameters are there while it lives.
// UnitRunner makes it, on the stack of the thread that trains.
class UnitCall {
 public:
  // Of that module, or, where it is null, of the whole model. A module that is no unit is only called.
  UnitCall(std::shared_ptr<UnitScheduler> units, const torch::nn::Module* unit);
  ~UnitCall();
  UnitCall(const UnitCall&) = delete;
  UnitCall& operator=(const UnitCall&) = delete;

  // What `forward` returns.
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
  // What is no tensor: only a whole pass may return it.
  template <class Other>
  requires(!std::is_convertible_v<const Other&, const at::Tensor&>) void watch(const Other&) const {
    check_root();
  }
  void check_root() const;

  const std::shared_ptr<UnitScheduler> units_;
  std::optional<std::size_t> unit_;
};

// Purpose: what a module calls around its units, so that it can be sharded: runner(*layer, [&] { return
// layer->forward(x); }). Until it is that of a ShardedModel it only calls. A value.
class UnitRunner {
 public:
  UnitRunner() = default;
  // That of a ShardedModel.
  explicit UnitRunner(std::weak_ptr<UnitScheduler> units) : units_(std::move(units)) {}

  // Returns what `forward` returns: a tensor, or a vector or tuple of such.
  template <class Forward>
  auto operator()(const torch::nn::Module& unit, Forward&& forward) const {
    std::shared_ptr<UnitScheduler> units = units_.lock();
    return units ? UnitCall(std::move(units), &unit).run(std::forward<Forward>(forward)) : forward();
  }

 private:
  std::weak_ptr<UnitScheduler> units_;
};

}  // namespace rueda
