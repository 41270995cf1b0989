// SPDX-License-Identifier: Apache-2.0
// What DistributedOptimizer(sharded=True) steps: this rank's parts of all parameters.
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <vector>

#include "frameworks/torch/sharding/parameter_shards.h"
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

// Purpose: ParameterShards whose end, which copies, does not hold Python's lock. Used by the thread that
// steps.
class Shards {
 public:
  explicit Shards(const Lists& groups)
      : shards_(std::make_unique<ParameterShards>(groups_of(groups), default_runtime())) {}
  ~Shards() {
    const WithoutPythonLock no_lock;
    shards_.reset();
  }

  Lists parts() const {
    Lists lists;
    for (const auto& group : shards_->groups()) lists.push_back(group.params());
    return lists;
  }
  const std::vector<at::Tensor>& parameters() const { return shards_->parameters(); }
  bool shared() const { return shards_->shared(); }
  void begin_step(const Lists& stepped) { shards_->begin_step(groups_of(stepped)); }
  void give_gradients() { shards_->give_gradients(); }
  void end_step(bool well) { shards_->end_step(well); }

 private:
  std::unique_ptr<ParameterShards> shards_;
};

}  // namespace

void bind_parameter_shards(py::module_& module) {
  py::class_<Shards>(module, "ParameterShards")
      .def(py::init<const Lists&>(), NoPythonLock())
      .def("parts", &Shards::parts)
      .def("parameters", &Shards::parameters)
      .def("shared", &Shards::shared)
      .def("begin_step", &Shards::begin_step, NoPythonLock())
      .def("give_gradients", &Shards::give_gradients, NoPythonLock())
      .def("end_step", &Shards::end_step, NoPythonLock());
}

}  // namespace rueda::python
