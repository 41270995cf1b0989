// SPDX-License-Identifier: Apache-2.0
// The parts that DistributedOptimizer(sharded=True) steps: this rank's parts of all parameters.
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "frameworks/torch/sharding/recoverable_shards.h"
#include "python/src/torch_module.h"

namespace py = pybind11;

namespace rueda::python {
namespace {

using Lists = std::vector<std::vector<at::Tensor>>;

ParameterShards::Groups groups_of(const Lists& lists) {
  ParameterShards::Groups groups;
  for (const std::vector<at::Tensor>& list : lists) groups.emplace_back(list);
  return groups;
}

// An optimizer's state of a parameter, in Python.
using Value = std::variant<at::Tensor, bool, std::int64_t, double>;
using Values = std::map<std::string, Value>;

RecoverableShards::States saved_of_python(const std::vector<Values>& states) {
  RecoverableShards::States saved;
  for (const Values& values : states) {
    SavedValues& of_leaf = saved.emplace_back();
    for (const auto& [name, value] : values) {
      if (const auto* tensor = std::get_if<at::Tensor>(&value))
        of_leaf[name] = tensor->detach().cpu();
      else
        std::visit([&](const auto& each) { of_leaf[name] = each; }, value);
    }
  }
  return saved;
}

// Each leaf gets a tensor of its own, even if several had taken one value.
Value python_value(const c10::IValue& value, std::int64_t elements) {
  if (value.isBool()) return value.toBool();
  if (value.isInt()) return value.toInt();
  if (value.isDouble()) return value.toDouble();
  const at::Tensor& tensor = value.toTensor();
  return tensor.dim() == 1 && tensor.numel() == elements ? tensor : tensor.clone();
}

// Purpose: RecoverableShards with an end, which copies, that does not hold Python's lock. Used by the thread
// that steps.
class Shards {
 public:
  Shards(const Lists& groups, Rank copies, bool alone)
      : shards_(std::make_unique<RecoverableShards>(groups_of(groups), copies, alone, default_runtime())) {}
  ~Shards() {
    const WithoutPythonLock no_lock;
    shards_.reset();
  }

  Lists parts() const {
    Lists lists;
    for (const auto& group : shards_->shards().groups()) lists.push_back(group.params());
    return lists;
  }
  const std::vector<at::Tensor>& parameters() const { return shards_->shards().parameters(); }
  bool shared() const { return shards_->shards().shared(); }
  void begin_step(const Lists& stepped) { shards_->begin_step(groups_of(stepped)); }
  void save(const std::vector<Values>& states) { shards_->save(saved_of_python(states)); }
  void agree_on_version(Rank root) { shards_->agree_on_version(root, default_runtime()); }
  std::vector<Values> divide(const std::vector<Values>& states) {
    std::vector<Values> found;
    for (const SavedParameter& part : shards_->divide(saved_of_python(states), default_runtime())) {
      Values& values = found.emplace_back();
      for (const auto& [name, value] : part.state)
        values.emplace(name, python_value(value, part.end - part.begin));
    }
    return found;
  }
  RecoverableShards& get() { return *shards_; }

 private:
  std::unique_ptr<RecoverableShards> shards_;
};

}  // namespace

void bind_parameter_shards(py::module_& module) {
  py::class_<Shards>(module, "ParameterShards")
      .def(py::init<const Lists&, Rank, bool>(), NoPythonLock())
      .def("parts", &Shards::parts)
      .def("parameters", &Shards::parameters)
      .def("shared", &Shards::shared)
      .def("begin_step", &Shards::begin_step, NoPythonLock())
      .def(
          "end_step", [](Shards& each, bool well) { each.get().end_step(well); }, NoPythonLock())
      .def("check_divided", [](Shards& each) { each.get().check_divided(); })
      .def("keep_copies", [](Shards& each) { each.get().keep_copies(); })
      .def("save", &Shards::save, NoPythonLock())
      .def("note", [](Shards& each) { each.get().note(); })
      .def("restore", [](Shards& each) { each.get().restore(); })
      .def("is_ahead", [](Shards& each) { return each.get().is_ahead(); })
      .def("stepped_alone", [](Shards& each) { return each.get().stepped_alone(); })
      .def("throw_kept_back", [](Shards& each) { each.get().throw_kept_back(); })
      .def("agree_on_version", &Shards::agree_on_version, NoPythonLock())
      .def("is_step_due", [](Shards& each) { return each.get().is_step_due(); })
      .def("end_due_step", [](Shards& each) { each.get().end_due_step(); })
      .def("divide", &Shards::divide, NoPythonLock());
}

}  // namespace rueda::python
