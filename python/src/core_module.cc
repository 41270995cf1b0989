// SPDX-License-Identifier: Apache-2.0
// rueda._core: a job's beginning and end, its ranks, and its statistics. Knows nothing of torch.
#include <fmt/format.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/engine/runtime.h"
#include "core/observe/metrics.h"
#include "core/observe/operations_ended.h"
#include "core/observe/training/training_wait.h"
#include "ops/bootstrap/address/agent_line.h"
#include "ops/setup/device_report.h"
#include "python/src/errors.h"
#include "python/src/python_lock.h"
#include "python/src/python_store.h"
#include "python/src/scope.h"
#include "python/src/signals.h"
#include "rueda/process_set.h"
#include "rueda/rueda.h"
#include "rueda/store.h"
#include "rueda/training.h"

namespace py = pybind11;

namespace rueda::python {
namespace {

std::vector<Rank> list_of(const RankSet& ranks) {
  std::vector<Rank> list;
  for (Rank index = 0; index < ranks.count(); ++index) list.push_back(ranks.at(index));
  return list;
}

RankSet set_of(const std::vector<Rank>& list) {
  RankSet ranks;
  for (const Rank rank : list) {
    if (rank < 0) refuse(fmt::format("a process set has rank {}; ranks count from 0", rank));
    ranks.add(RankSet::of(rank));
  }
  return ranks;
}

void init_with_store(const std::vector<std::vector<Rank>>& process_sets, const py::object& object, Rank rank,
                     Rank size) {
  const auto store = std::make_shared<PythonStore>(object);
  try {
    const WithoutPythonLock unlocked;
    init(store, rank, size, process_sets);
  } catch (const Error&) {
    if (store->restore_interruption()) throw py::error_already_set();
    throw;
  }
}

// When it was heard of, and Horovod's bits: 1 for removed, 2 for added.
std::optional<std::pair<double, int>> as_horovod_tells(const std::optional<MembershipChange>& change) {
  if (!change) return std::nullopt;
  return std::pair(change->since, (change->removed ? 1 : 0) + (change->added ? 2 : 0));
}

void bind_job(py::module_& module) {
  module.def(
      "init",
      [](const std::vector<std::vector<Rank>>& process_sets, const std::vector<Rank>& ranks) {
        init(process_sets, ranks);
      },
      NoPythonLock());
  module.def("init_with_store", &init_with_store);
  module.def("shutdown", &shutdown, NoPythonLock());
  module.def("end_without_others", &end_without_others);
  module.def("is_initialized", &is_initialized);
  module.def("rank", &rank);
  module.def("size", &size);
  module.def("local_rank", &local_rank);
  module.def("local_size", &local_size);
  module.def("cross_rank", &cross_rank);
  module.def("cross_size", &cross_size);
  module.def("is_homogeneous", &is_homogeneous);
  module.def("is_elastic", &is_elastic);
  module.def("newer_generation", [] { return as_horovod_tells(membership_change()); });
  module.def("note_training_state", &note_training_state);
  // Counts the workers that have come or gone since this process has come in.
  module.def("workers_changed", [] {
    const auto membership = metrics().membership;
    return membership.lost + membership.joined;
  });
}

void bind_process_sets(py::module_& module) {
  py::class_<ProcessSet>(module, "ProcessSet")
      .def_property_readonly("id", &ProcessSet::id)
      .def_property_readonly("ranks", [](const ProcessSet& set) { return list_of(set.ranks()); })
      .def_property_readonly("size", &ProcessSet::size)
      .def_property_readonly("rank", &ProcessSet::rank);
  module.def("process_sets", [] { return process_sets(); });
  module.def(
      "add_process_set", [](const std::vector<Rank>& ranks) { return add_process_set(set_of(ranks)); },
      NoPythonLock());
  module.def(
      "remove_process_set", [](const ProcessSet& set) { remove_process_set(set); }, NoPythonLock());
}

void bind_meetings(py::module_& module) {
  module.def(
      "barrier",
      [](const Members& set) {
        const TrainingWait waiting;
        barrier_async(scope_of(set).awaited()).wait();
      },
      py::arg("set") = py::none(), NoPythonLock());
  module.def(
      "join",
      [](const Members& set) {
        const TrainingWait waiting;
        return join(scope_of(set));
      },
      py::arg("set") = py::none(), NoPythonLock());
}

void bind_observation(py::module_& module) {
  module.def("start_timeline", &start_timeline, NoPythonLock());
  module.def("stop_timeline", &stop_timeline, NoPythonLock());
  module.def(
      "metrics", [] { return to_prometheus_text(metrics()); }, NoPythonLock());
  module.def("operations_ended", [] { return is_initialized() ? operations_ended(metrics()) : 0; });
  module.def(
      "report", [] { return default_runtime().report(); }, NoPythonLock());
}

// Purpose: a PhaseScope as a context of Python. Used by one thread.
class PhaseContext {
 public:
  explicit PhaseContext(const std::string& name) : phase_(phase_of(name)) {}

  void enter() { scope_.emplace(phase_); }
  // `fails`: by an exception, such as the end of a loader's samples.
  void exit(bool fails) {
    if (fails && scope_) scope_->end_of_samples();
    scope_.reset();
  }

 private:
  static Phase phase_of(const std::string& name) {
    std::string names;
    for (int i = 0; i < kPhaseCount; ++i) {
      const auto phase = static_cast<Phase>(i);
      if (to_string(phase) == name) return phase;
      names += fmt::format("{}{}", i == 0 ? "" : ", ", to_string(phase));
    }
    refuse(fmt::format("phase: there is no phase '{}'; there are {}", name, names));
  }

  const Phase phase_;
  std::optional<PhaseScope> scope_;
};

void bind_training(py::module_& module) {
  py::class_<PhaseContext>(module, "PhaseContext")
      .def(py::init<const std::string&>())
      .def("__enter__",
           [](PhaseContext& context) -> PhaseContext& {
             context.enter();
             return context;
           })
      .def("__exit__", [](PhaseContext& context, const py::object& exception, const py::object& /*value*/,
                          const py::object& /*traceback*/) { context.exit(!exception.is_none()); });
  module.def("log_scalar", &log_scalar);
  module.def("describe_training", &describe_training);
  module.def("end_step", &end_step);
  module.def("tell_stacks", &tell_stacks);
}

}  // namespace
}  // namespace rueda::python

PYBIND11_MODULE(_core, module) {
  using namespace rueda::python;
  register_errors();
  run_signal_handlers_while_waiting();
  block_threads_that_python_unwinds();
  bind_job(module);
  bind_process_sets(module);
  bind_meetings(module);
  bind_observation(module);
  bind_training(module);
  module.attr("MPI_BUILT") = py::bool_(RUEDA_PYTHON_MPI);
  module.attr("CUDA_BUILT") = rueda::ops::cuda_built();
  module.attr("NCCL_VERSION") = rueda::ops::nccl_built();
}
