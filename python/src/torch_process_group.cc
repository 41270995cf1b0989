// SPDX-License-Identifier: Apache-2.0
// Rueda as a backend of torch.distributed.
#include <pybind11/chrono.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/control_plane/Handlers.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <vector>

#include "frameworks/torch/c10d/flight_recorder.h"
#include "frameworks/torch/c10d/future_completer.h"
#include "frameworks/torch/c10d/group_job.h"
#include "frameworks/torch/c10d/operations/training_marks.h"
#include "frameworks/torch/c10d/process_group.h"
#include "frameworks/torch/c10d/shared_buckets.h"
#include "python/src/python_lock.h"
#include "python/src/torch_module.h"

namespace py = pybind11;

namespace rueda::python {
namespace {

c10::intrusive_ptr<ProcessGroup> make_process_group(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                                    int size, const std::string& backend,
                                                    const std::string& group,
                                                    const std::vector<std::uint64_t>& ranks,
                                                    std::chrono::milliseconds timeout) {
  const WithoutPythonLock unlocked;  // the other ranks come in their time
  return c10::make_intrusive<ProcessGroup>(store, rank, size, GroupNames{backend, group, ranks}, timeout);
}

// Throws RuntimeError if the Reducer has a hook.
void share_buckets(c10d::Reducer& reducer, const c10::intrusive_ptr<ProcessGroup>& group) {
  reducer.register_comm_hook(std::make_unique<SharedBuckets>(group));
}

// torch calls get_future() with the lock.
void wait_without_python_lock(const std::function<void()>& wait) {
  if (PyGILState_Check() == 0) return wait();
  const WithoutPythonLock unlocked;
  wait();
}

py::bytes flight_record() {
  std::string record;
  {
    const WithoutPythonLock unlocked;  // lines of the program need it on the way
    record = FlightRecorder::of_process().pickled();
  }
  return record;
}

}  // namespace

void bind_process_group(py::module_& module) {
  py::module_::import("torch.distributed");  // the classes of c10d
  py::class_<ProcessGroup, c10d::Backend, c10::intrusive_ptr<ProcessGroup>>(module, "ProcessGroup")
      .def(py::init(&make_process_group))  // pybind11 notes the new object with the lock
      .def("_set_default_timeout", &ProcessGroup::setTimeout, py::arg("timeout"))
      // torch calls it on ranks that are not in a new group, if init_process_group() was given a device.
      .def("perform_nocolor_split", [](ProcessGroup&, const py::object&) {});
  module.def("share_buckets", &share_buckets);
  module.def("flight_record", &flight_record);
  module.def("complete_futures_in_calls", &complete_futures_in_calls);
  run_waits_of_calls_by(&wait_without_python_lock);
  c10d::control_plane::registerHandler("rueda_trace_json", [](const auto&, auto& response) {
    response.setContent(FlightRecorder::of_process().json(), "application/json");
    response.setStatus(200);
  });
  module.def("mark_step_begin", &mark_step_begin);
  module.def("mark_step_end", &mark_step_end);
  module.def(
      "end_process_groups",
      [](bool has_failed) {
        GroupJobs::of_process().end_all(has_failed ? Duration(kGraceAfterFailure) : kUntilOthersEnd);
      },
      NoPythonLock());
}

}  // namespace rueda::python
