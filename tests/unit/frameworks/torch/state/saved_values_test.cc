// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/state/saved_values.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "frameworks/torch/state/optimizer_tensors.h"
#include "frameworks/torch/state/own_archive.h"
#include "frameworks/torch/state/value_tree.h"
#include "rueda/torch/optimizers/lamb.h"
#include "rueda/torch/optimizers/lars.h"
#include "rueda/torch/state/archive.h"
#include "tests/support/words_of.h"

namespace rueda {
namespace {

using testing::HasSubstr;
using torch::optim::Optimizer;
using torch::optim::OptimizerParamState;

// An optimizer of each class that Rueda knows, with all fields that its state can have.
std::vector<std::shared_ptr<Optimizer>> optimizers_of(const std::vector<at::Tensor>& parameters) {
  using namespace torch::optim;
  return {std::make_shared<SGD>(parameters, SGDOptions(0.1).momentum(0.9)),
          std::make_shared<SGD>(parameters, SGDOptions(0.1)),
          std::make_shared<Adam>(parameters, AdamOptions(0.1).amsgrad(true)),
          std::make_shared<Adam>(parameters, AdamOptions(0.1)),
          std::make_shared<AdamW>(parameters, AdamWOptions(0.1).amsgrad(true)),
          std::make_shared<RMSprop>(parameters, RMSpropOptions(0.1).momentum(0.9).centered(true)),
          std::make_shared<Adagrad>(parameters, AdagradOptions(0.1)),
          std::make_shared<Lamb>(parameters, LambOptions(0.1)),
          std::make_shared<Lars>(parameters, LarsOptions(0.1).momentum(0.9))};
}

SavedValues as_torch_saves(const OptimizerParamState& state) {
  torch::serialize::OutputArchive archive;
  state.serialize(archive);
  torch::serialize::InputArchive written = reader_of(archive, at::kCPU);
  SavedValues values;
  for (const std::string& key : written.keys()) written.read(key, values[key]);
  return values;
}

void expect_equal(const SavedValues& ours, const SavedValues& theirs) {
  ASSERT_EQ(ours.size(), theirs.size());
  for (const auto& [key, value] : theirs) {
    ASSERT_TRUE(ours.contains(key)) << key;
    const c10::IValue& own = ours.at(key);
    ASSERT_EQ(own.tagKind(), value.tagKind()) << key;
    if (value.isTensor())
      EXPECT_TRUE(at::equal(own.toTensor(), value.toTensor())) << key;
    else
      EXPECT_EQ(own.toInt(), value.toInt()) << key;
  }
}

at::Tensor stepped_parameter(Optimizer& optimizer) {
  const at::Tensor& parameter = optimizer.param_groups().front().params().front();
  for (int step = 0; step < 3; ++step) {
    parameter.mutable_grad() = at::arange(6, at::kFloat) + step;
    optimizer.step();
  }
  return parameter;
}

TEST(SavedValues, AreThoseThatTorchSavesOfEachOptimizer) {
  const std::size_t kinds = optimizers_of({at::ones({6})}).size();
  std::size_t with_state = 0;
  for (std::size_t kind = 0; kind < kinds; ++kind) {
    const std::shared_ptr<Optimizer> optimizer = optimizers_of({at::ones({6}).requires_grad_()})[kind];
    const at::Tensor parameter = stepped_parameter(*optimizer);
    const auto state = optimizer->state().find(parameter.unsafeGetTensorImpl());
    if (state == optimizer->state().end()) continue;  // SGD without momentum
    ++with_state;
    const SavedValues saved = saved_states(*optimizer).front();
    expect_equal(saved, as_torch_saves(*state->second));
    const std::optional<StateFields> fields = fields_of(*state->second);
    for (const auto& [key, tensor] : fields->tensors) {
      if (!tensor->defined()) continue;
      EXPECT_FALSE(tensor->is_alias_of(saved.at(key).toTensor()))
          << "the next step would change what is saved";
    }
  }
  EXPECT_EQ(with_state, kinds - 1);
}

// An empty state of the same class.
std::unique_ptr<OptimizerParamState> fresh_state(const OptimizerParamState& like) {
  std::unique_ptr<OptimizerParamState> state = like.clone();
  const std::optional<StateFields> fields = fields_of(*state);
  if (fields->step != nullptr) *fields->step = 0;
  for (const auto& [name, tensor] : fields->tensors) *tensor = at::Tensor();
  return state;
}

TEST(SavedValues, OfAnOptimizerContinueInAnother) {
  const std::size_t kinds = optimizers_of({at::ones({6})}).size();
  for (std::size_t kind = 0; kind < kinds; ++kind) {
    const std::shared_ptr<Optimizer> first = optimizers_of({at::ones({6}).requires_grad_()})[kind];
    const at::Tensor parameter = stepped_parameter(*first);
    const auto state = first->state().find(parameter.unsafeGetTensorImpl());
    if (state == first->state().end()) continue;
    const at::Tensor copy = parameter.detach().clone().requires_grad_();
    const std::shared_ptr<Optimizer> second = optimizers_of({copy})[kind];
    const SavedParameter saved{"parameter", 0, 6, 6, {}, saved_states(*first).front()};
    const auto make_state = [&](const at::Tensor&, const torch::optim::OptimizerOptions&) {
      return fresh_state(*state->second);
    };
    give_states(*second, make_state, {copy}, {saved});
    expect_equal(saved_states(*second).front(), saved.state);
    stepped_parameter(*first);
    stepped_parameter(*second);
    EXPECT_TRUE(at::equal(parameter, copy)) << kind;
    EXPECT_FALSE(at::equal(parameter, at::ones({6})));
  }
}

// A file may hold anything under these names.
TEST(SavedValues, OfOtherKindsAreRefused) {
  const std::shared_ptr<Optimizer> optimizer = optimizers_of({at::ones({6}).requires_grad_()})[2];
  const at::Tensor parameter = stepped_parameter(*optimizer);
  const std::unique_ptr<OptimizerParamState> like = optimizer->state().begin()->second->clone();
  const auto make_state = [&](const at::Tensor&, const torch::optim::OptimizerOptions&) {
    return fresh_state(*like);
  };
  SavedParameter saved{"parameter", 0, 6, 6, {}, saved_states(*optimizer).front()};
  saved.state["exp_avg"] = std::int64_t{3};
  EXPECT_THROW(give_states(*optimizer, make_state, {parameter}, {saved}), c10::Error);
  saved.state = {{"step", at::ones({6})}};
  EXPECT_THROW(give_states(*optimizer, make_state, {parameter}, {saved}), c10::Error);
}

SavedModel some_model() {
  SavedModel saved;
  saved.parameters.push_back({"layer.weight",
                              2,
                              8,
                              12,
                              at::arange(6, at::kFloat),
                              {{"step", std::int64_t{3}}, {"exp_avg", at::ones({6})}}});
  saved.parameters.push_back({"layer.bias", 0, 4, 4, {}, {}});
  saved.groups.push_back({{"lr", 0.25}, {"nesterov", true}});
  return saved;
}

void expect_equal(const SavedModel& ours, const SavedModel& theirs) {
  ASSERT_EQ(ours.parameters.size(), theirs.parameters.size());
  for (std::size_t i = 0; i < theirs.parameters.size(); ++i) {
    const SavedParameter &own = ours.parameters[i], &other = theirs.parameters[i];
    EXPECT_EQ(own.name, other.name);
    EXPECT_EQ(std::vector({own.begin, own.end, own.elements}),
              std::vector({other.begin, other.end, other.elements}));
    ASSERT_EQ(own.value.defined(), other.value.defined());
    EXPECT_TRUE(!own.value.defined() || at::equal(own.value, other.value));
    expect_equal(own.state, other.state);
  }
  ASSERT_EQ(ours.groups.size(), theirs.groups.size());
  EXPECT_EQ(ours.groups[0].at("lr").toDouble(), theirs.groups[0].at("lr").toDouble());
  EXPECT_EQ(ours.groups[0].at("nesterov").toBool(), theirs.groups[0].at("nesterov").toBool());
}

TEST(SavedModel, IsTheSameThroughBytesAndThroughAnArchive) {
  const SavedModel saved = some_model();
  expect_equal(saved_of(bytes_of(saved)), saved);
  torch::serialize::OutputArchive archive;
  write(archive, saved);
  expect_equal(saved_of(to_bytes(archive)), saved);
  torch::serialize::InputArchive read = read_archive(bytes_of(saved), at::kCPU);
  expect_equal(read_saved_model(read), saved);
}

TEST(SavedModel, DamagedBytesAreRefusedInWords) {
  const auto refusal = [](const std::function<void(ValueTree&)>& change) {
    ValueTree tree;
    change(tree);
    return words_of([&] { saved_of(to_bytes(tree)); });
  };
  EXPECT_THAT(refusal([](ValueTree&) {}), HasSubstr("not of a ShardedModel"));
  EXPECT_THAT(refusal([](ValueTree& tree) {
                tree.add("rueda_sharded_model", std::int64_t{1} << 40);
                tree.add("groups", std::int64_t{0});
              }),
              HasSubstr("has no 'parameters/0'"));
  EXPECT_THAT(refusal([](ValueTree& tree) {
                tree.add("rueda_sharded_model", "two");
                tree.add("groups", std::int64_t{0});
              }),
              HasSubstr("is damaged"));
  EXPECT_THAT(words_of<std::exception>([] { saved_of("no file at all"); }), HasSubstr("the file"));
}

}  // namespace
}  // namespace rueda
