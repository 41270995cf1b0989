// SPDX-License-Identifier: Apache-2.0
// The GradientReducer of frameworks/torch for rueda.torch.DistributedOptimizer: hooks and waiting run without
// Python's lock.
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/serialize/archive.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "frameworks/torch/reducer/generations.h"
#include "frameworks/torch/reducer/gradient_options.h"
#include "python/src/compressor_hook.h"
#include "python/src/torch_module.h"
#include "rueda/torch/collectives/operations.h"
#include "rueda/torch/reducer/gradient_reducer.h"
#include "rueda/torch/state/archive.h"

namespace py = pybind11;

namespace rueda::python {
namespace {

using Named = std::vector<std::pair<std::string, at::Tensor>>;
using Groups = std::vector<std::vector<at::Tensor>>;

// Purpose: a GradientReducer with an end, which waits for reductions under way, that does not hold Python's
// lock: the background thread may need it to let go of a tensor.
class Reducer {
 public:
  // Python knows by itself when ranks meet (rueda/torch/generations.py).
  Reducer(const std::vector<at::Tensor>& parameters, const DistributedOptions& options, const Scope& scope) {
    const Generations::InRun in_run;
    reducer_ = std::make_unique<GradientReducer>(parameters, options, scope);
  }
  ~Reducer() {
    const WithoutPythonLock no_lock;
    skips_.clear();
    pauses_.clear();
    reducer_.reset();
  }

  GradientReducer& get() { return *reducer_; }
  // One more context of skip_synchronize(), or one less.
  void enter_skip() {
    reducer_->check_skip();
    skips_.push_back(std::make_unique<GradientReducer::Skip>(*reducer_));
  }
  void leave_skip() {
    if (!skips_.empty()) skips_.pop_back();
  }
  // One more context of no_sync(), or one less.
  void enter_no_sync() { pauses_.push_back(std::make_unique<GradientReducer::NoSync>(*reducer_)); }
  void leave_no_sync() {
    if (!pauses_.empty()) pauses_.pop_back();
  }

 private:
  std::unique_ptr<GradientReducer> reducer_;
  std::vector<std::unique_ptr<GradientReducer::Skip>> skips_;
  std::vector<std::unique_ptr<GradientReducer::NoSync>> pauses_;
};

std::unique_ptr<Reducer> make_reducer(const std::vector<at::Tensor>& parameters, const Named& named,
                                      const Groups& groups, ReduceOp op, int passes, bool sum_passes,
                                      const std::string& schedule, SparseGradients sparse,
                                      Compression compression, double compression_share, int low_rank,
                                      const std::vector<at::Tensor>& without_low_rank,
                                      std::shared_ptr<Compressor> compressor, double predivide_factor,
                                      bool device_window, bool measure_norm, bool synchronize_in_backward,
                                      bool sharded, Members set) {
  const DistributedOptions options{.named_parameters = named,
                                   .groups = groups,
                                   .op = op,
                                   .backward_passes_per_step = passes,
                                   .sum_passes = sum_passes,
                                   .schedule = SyncSchedule::parse(schedule),
                                   .sparse = sparse,
                                   .compression = compression,
                                   .compression_share = compression_share,
                                   .low_rank = {low_rank, without_low_rank},
                                   .hook = hook_of(std::move(compressor)),
                                   .gradient_predivide_factor = predivide_factor,
                                   .device_window = device_window,
                                   .measure_norm = measure_norm,
                                   .synchronize_in_backward = synchronize_in_backward};
  const Scope scope = scope_of(set);
  if (sharded) checked_for_shards(options, scope.runtime());
  return std::make_unique<Reducer>(parameters, options, scope);
}

// The state of schedules, as a safetensors file.
py::bytes saved(Reducer& reducer) {
  std::string bytes;
  {
    const WithoutPythonLock no_lock;
    torch::serialize::OutputArchive archive;
    reducer.get().save(archive);
    bytes = to_bytes(archive);
  }
  return bytes;
}

void load(Reducer& reducer, const std::string& bytes, bool allow_code) {
  torch::serialize::InputArchive archive = read_archive(bytes, at::kCPU, {.allow_code = allow_code});
  reducer.get().load(archive);
}

// A method of the GradientReducer as one of Reducer.
template <class Method>
auto of_reducer(Method method) {
  return [method](Reducer& reducer) { return (reducer.get().*method)(); };
}

}  // namespace

void bind_gradient_reducer(py::module_& module) {
  bind_compressor(module);
  py::enum_<Compression>(module, "Compression")
      .value("none", Compression::none)
      .value("fp16", Compression::fp16)
      .value("bf16", Compression::bf16)
      .value("topk", Compression::topk);
  py::enum_<SparseGradients>(module, "SparseGradients")
      .value("as_dense", SparseGradients::as_dense)
      .value("by_density", SparseGradients::by_density)
      .value("as_sparse", SparseGradients::as_sparse)
      .value("travels_dense", SparseGradients::travels_dense);
  py::class_<Reducer>(module, "GradientReducer")
      .def(py::init(&make_reducer), py::kw_only(), py::arg("parameters"), py::arg("named_parameters"),
           py::arg("groups"), py::arg("op"), py::arg("backward_passes_per_step"), py::arg("sum_passes"),
           py::arg("schedule"), py::arg("sparse"), py::arg("compression"), py::arg("compression_share"),
           py::arg("low_rank"), py::arg("without_low_rank"), py::arg("compressor"),
           py::arg("gradient_predivide_factor"), py::arg("device_window"), py::arg("measure_norm"),
           py::arg("synchronize_in_backward"), py::arg("sharded"), py::arg("process_set"), NoPythonLock())
      .def("synchronize", of_reducer(&GradientReducer::synchronize), NoPythonLock())
      .def("refresh_hooks", of_reducer(&GradientReducer::refresh_hooks), NoPythonLock())
      .def("before_step", of_reducer(&GradientReducer::before_step), NoPythonLock())
      .def("end_generation", of_reducer(&GradientReducer::end_generation), NoPythonLock())
      .def("after_step", of_reducer(&GradientReducer::after_step), NoPythonLock())
      .def("before_zero_grad", of_reducer(&GradientReducer::before_zero_grad), NoPythonLock())
      .def(
          "grad_norm", [](Reducer& reducer) { return double(reducer.get().grad_norm()); }, NoPythonLock())
      .def("sync_interval", of_reducer(&GradientReducer::sync_interval), NoPythonLock())
      .def("drift", of_reducer(&GradientReducer::drift), NoPythonLock())
      .def("wait_seconds", of_reducer(&GradientReducer::wait_seconds), NoPythonLock())
      .def("enter_skip", &Reducer::enter_skip, NoPythonLock())
      .def("leave_skip", &Reducer::leave_skip)
      .def("enter_no_sync", &Reducer::enter_no_sync, NoPythonLock())
      .def("leave_no_sync", &Reducer::leave_no_sync, NoPythonLock())
      .def(
          "clip_grad_norm_",
          [](Reducer& reducer, double max_norm) { return double(reducer.get().clip_grad_norm_(max_norm)); },
          NoPythonLock())
      .def(
          "flush",
          [](Reducer& reducer, std::optional<double> max_norm) { return reducer.get().flush(max_norm); },
          NoPythonLock())
      .def("save", &saved)
      .def("load", &load, py::arg("bytes"), py::arg("allow_code"), NoPythonLock())
      .def(
          "check_flushed",
          [](Reducer& reducer, const std::string& action) { reducer.get().check_flushed(action.c_str()); },
          NoPythonLock())
      .def("check_parameters", [](Reducer& reducer, const std::vector<at::Tensor>& parameters) {
        reducer.get().check_parameters(parameters);
      });
}

}  // namespace rueda::python
