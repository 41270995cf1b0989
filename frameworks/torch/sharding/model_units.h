// SPDX-License-Identifier: Apache-2.0
// The units of a model. The parameters of a unit are gathered together.
#pragma once

#include <torch/optim/optimizer.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/runtime.h"
#include "frameworks/torch/sharding/flat_parameter.h"
#include "frameworks/torch/sharding/recoverable_parts.h"
#include "rueda/rueda.h"
#include "rueda/torch/collectives/scope_reference.h"
#include "rueda/torch/sharding/sharded_model.h"

namespace torch::nn {
class Module;
}  // namespace torch::nn

namespace rueda {

// Purpose: the unit of each parameter of a model, and its location in the unit. Belongs to a UnitScheduler,
// whose thread uses it.
class ModelUnits final : public DividedParts {
 public:
  struct Location {
    std::size_t unit;
    std::size_t parameter;
  };
  static constexpr std::size_t kRoot = 0;

  // Collective; all parameters get the values of rank 0. Throws Mismatch when ranks differ, InvalidArgument
  // for a model that cannot be sharded. `alone`: this rank has all parts, and it is not collective.
  ModelUnits(torch::nn::Module& module, const ShardedModelOptions& options, bool alone, Runtime& runtime);
  // The units and groups of `former` among the ranks of another Runtime, without values: see to_fill(). The
  // module's parameters move here. Collective. Throws Mismatch when ranks differ.
  ModelUnits(const ModelUnits& former, Rank copies, Runtime& runtime);
  // Parameters that are shared become each rank's own.
  ~ModelUnits() override;
  ModelUnits(const ModelUnits&) = delete;
  ModelUnits& operator=(const ModelUnits&) = delete;

  std::string subject() const override { return "sharded model"; }
  Runtime& runtime() const override { return runtime_.get().runtime(); }
  Rank rank() const { return division_.rank; }
  Rank ranks() const override { return division_.ranks; }
  const ShardedModelOptions& options() const { return options_; }
  const at::Device& device() const { return *device_; }  // of all parameters
  bool shared() const { return shared_; }                // whether all ranks have one copy

  std::size_t size() const { return units_.size(); }
  FlatParameter& operator[](std::size_t unit) const { return *units_[unit]; }
  std::vector<std::unique_ptr<FlatParameter>>& all() { return units_; }  // the root first
  // That module; nothing if it is no unit.
  std::optional<std::size_t> find(const torch::nn::Module& module) const;
  // All parameters, each once, in the order of units; the unit of one; the first of a unit among them.
  const std::vector<at::Tensor>& parameters() const override { return all_; }
  const Location& location(std::size_t index) const { return locations_[index]; }
  std::size_t first(std::size_t unit) const { return first_[unit]; }

  // Both return groups with this rank's pieces in place of the parameters: of `given`, once, then the same.
  const Groups& make_groups(const Groups& given);
  const Groups& groups() const override { return groups_; }

  // A rank refuses pieces that are not those of groups(), and parameters that have moved.
  void begin_step(const Groups& stepped) override;
  void end_step(bool well) override;
  void renew_copies() override;
  // Graphs that have saved the parameters refuse to run.
  void mark_parameters_changed() const;

  std::map<Rank, std::vector<SavedParameter>> held(const std::vector<SavedValues>& states) const override;
  std::vector<SavedParameter> to_fill() const override;
  // A name for the next operation of all ranks; for that operation of one unit.
  std::string next_name();
  std::string name_of(const char* operation, std::size_t unit) const;

 private:
  // A piece, and its unit.
  struct Found {
    const FlatParameter* unit;
    const FlatParameter::Piece* piece;
  };

  void make_units(torch::nn::Module& module);
  void check(const std::string& name, const at::Tensor& tensor);
  void add_unit(const std::string& name, std::vector<FlatParameter::Parameter> parameters);
  void check_ranks() const;
  std::shared_ptr<std::byte> share_block();
  void lay_out_parameters(bool alone);
  void lay_out_anew();
  std::vector<Found> pieces() const;
  Status check_step(const Groups& stepped) const;
  void copy_gradients();

  const ScopeReference runtime_;
  const ShardedModelOptions options_;
  const FlatParameter::Division division_;
  std::string scope_;
  std::optional<at::Device> device_;
  std::uint64_t operations_ = 0;
  bool shared_ = false;
  std::vector<std::unique_ptr<FlatParameter>> units_;
  std::map<const torch::nn::Module*, std::size_t> unit_of_;
  std::vector<std::size_t> first_;
  std::vector<at::Tensor> all_;
  std::vector<Location> locations_;
  std::vector<std::vector<at::Tensor>> given_;  // whole parameters of each group
  Groups groups_;                               // their pieces
};

// Runs an action that all ranks run at the same point of a pass.
template <class Action>
void together(Action action) {
  try {
    action();
  } catch (const Mismatch& error) {
    throw Mismatch(Status::mismatch(
        std::string("the ranks run different units of a ShardedModel, or different numbers of passes; where "
                    "units are gathered, every rank runs the same in the same order. ") +
        error.what()));
  }
}

}  // namespace rueda
