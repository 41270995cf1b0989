// SPDX-License-Identifier: Apache-2.0
// The collective operations. Those with `_async` in their names return a Handle at once, without waiting for
// anything, the others the result; the arguments are those of rueda.torch, all given.
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/default_runtime.h"
#include "core/submission_arguments.h"
#include "frameworks/torch/collectives/tensor_adapter.h"
#include "python/src/python_lock.h"
#include "python/src/torch_handle.h"
#include "python/src/torch_module.h"
#include "rueda/torch/collectives/capture.h"
#include "rueda/torch/collectives/empty.h"
#include "rueda/torch/collectives/grouped_operations.h"
#include "rueda/torch/collectives/operations.h"

namespace py = pybind11;

namespace rueda::python {

std::string name_of(const char* operation, const Name& name, const Scope& scope) {
  if (name) return std::string(operation).append(".").append(*name);
  return scope.runtime().next_name(std::string(operation) + ".noname", scope.process_set());
}

namespace {

// Two functions of Python for an operation; their arguments end with its process set: one returns a Handle,
// the other (none, if it has no name) waits: no other thread of Python runs between its submission and
// that.
template <class... Arguments, class Begin>
void bind_both(py::module_& module, const char* async, const char* awaited, Begin begin) {
  module.def(async, [=](const Arguments&... arguments, Members set) {
    return make_handle(PendingResult(begin(arguments..., scope_of(set))));
  });
  if (awaited == nullptr) return;
  module.def(awaited, [=](const Arguments&... arguments, Members set) {
    return PendingResult(begin(arguments..., scope_of(set).awaited())).wait();
  });
}

// An operation that reduces; of one tensor, or of a group.
template <class Handles, class Tensors, class Text>
void bind_reducing(py::module_& module, const char* async, const char* awaited, const char* operation,
                   Handles (*submit)(const Tensors&, Text, Reduction, Scope)) {
  bind_both<Tensors, Name, ReduceOp, double, double>(
      module, async, awaited,
      [=](const Tensors& tensors, const Name& name, ReduceOp op, double prescale, double postscale,
          const Scope& scope) {
        const Reduction reduction{.op = op, .prescale_factor = prescale, .postscale_factor = postscale};
        return submit(tensors, name_of(operation, name, scope), reduction, scope);
      });
}

void bind_reductions(py::module_& module) {
  using One = TensorHandle (*)(const at::Tensor&, std::string, Reduction, Scope);  // core has others
  bind_reducing(module, "allreduce_async", "allreduce", "allreduce", One(allreduce_async));
  bind_reducing(module, "allreduce_async_", "allreduce_", "allreduce", One(allreduce_async_));
  bind_reducing(module, "reducescatter_async", nullptr, "reducescatter", One(reducescatter_async));
  using Group =
      std::vector<TensorHandle> (*)(const std::vector<at::Tensor>&, const std::string&, Reduction, Scope);
  bind_reducing(module, "grouped_allreduce_async", "grouped_allreduce", "grouped_allreduce",
                Group(grouped_allreduce_async));
  bind_reducing(module, "grouped_allreduce_async_", "grouped_allreduce_", "grouped_allreduce",
                Group(grouped_allreduce_async_));
  bind_reducing(module, "grouped_reducescatter_async", "grouped_reducescatter", "grouped_reducescatter",
                Group(grouped_reducescatter_async));
}

void bind_broadcast(py::module_& module, const char* async, const char* awaited,
                    TensorHandle (*submit)(const at::Tensor&, Rank, std::string, Scope)) {
  bind_both<at::Tensor, Rank, Name>(
      module, async, awaited, [=](const at::Tensor& tensor, Rank root, const Name& name, const Scope& scope) {
        return submit(tensor, root, name_of("broadcast", name, scope), scope);
      });
}

// Operations with a root that bind_broadcast() does not know.
void bind_rooted(py::module_& module) {
  for (const bool in_place : {false, true}) {
    bind_both<at::Tensor, Rank, Name, ReduceOp, double, double>(
        module, in_place ? "reduce_async_" : "reduce_async", in_place ? "reduce_" : "reduce",
        [=](const at::Tensor& tensor, Rank root, const Name& name, ReduceOp op, double prescale,
            double postscale, const Scope& scope) {
          const Reduction reduction{.op = op, .prescale_factor = prescale, .postscale_factor = postscale};
          std::string full_name = name_of("reduce", name, scope);
          return in_place ? reduce_async_(tensor, root, std::move(full_name), reduction, scope)
                          : reduce_async(tensor, root, std::move(full_name), reduction, scope);
        });
  }
  bind_both<at::Tensor, Rank, Name>(
      module, "gather_async", "gather",
      [](const at::Tensor& tensor, Rank root, const Name& name, const Scope& scope) {
        return gather_async(tensor, root, name_of("gather", name, scope), scope);
      });
  bind_both<at::Tensor, Rank, std::optional<std::vector<std::int64_t>>, Name>(
      module, "scatter_async", "scatter",
      [](const at::Tensor& tensor, Rank root, const std::optional<std::vector<std::int64_t>>& splits,
         const Name& name, const Scope& scope) {
        return scatter_async(tensor, root, splits.value_or(std::vector<std::int64_t>()),
                             name_of("scatter", name, scope), scope);
      });
}

// The name of a message. Those without one are counted for each direction. The other rank does not hear of
// one that is refused here, so it must not be counted: `check` throws before.
std::string name_of_message(const Scope& scope, MessagePair pair, const at::Tensor& tensor, const Name& name,
                            void (*check)(const at::Tensor&, const std::string&)) {
  if (name) return name_of("message", name, scope);
  const std::string nameless = "noname";
  const Scope messages = scope_of_messages(scope, nameless, pair);
  check(tensor, "message." + nameless);
  data_type_for(tensor.scalar_type(), nameless);
  return name_of("message", name, messages);
}

void bind_messages(py::module_& module) {
  bind_both<at::Tensor, Rank, Name>(
      module, "send_async", "send",
      [](const at::Tensor& tensor, Rank destination, const Name& name, const Scope& scope) {
        const MessagePair pair{scope.runtime().topology().rank, destination};
        std::string full_name = name_of_message(scope, pair, tensor, name, check_movable);
        return send_async(tensor, destination, std::move(full_name), scope);
      });
  bind_both<at::Tensor, Rank, Name>(
      module, "recv_async", "recv",
      [](const at::Tensor& tensor, Rank source, const Name& name, const Scope& scope) {
        const MessagePair pair{source, scope.runtime().topology().rank};
        std::string full_name = name_of_message(scope, pair, tensor, name, check_can_be_written);
        return recv_async(tensor, source, std::move(full_name), scope);
      });
}

void bind_moves(py::module_& module) {
  module.def("allgather_async", [](const at::Tensor& tensor, const Name& name, Members set) {
    const Scope scope = scope_of(set);
    return make_handle(PendingResult(allgather_async(tensor, name_of("allgather", name, scope), scope)));
  });
  module.def("grouped_allgather_async",
             [](const std::vector<at::Tensor>& tensors, const Name& name, Members set) {
               const Scope scope = scope_of(set);
               return make_handle(PendingResult(
                   grouped_allgather_async(tensors, name_of("grouped_allgather", name, scope), scope)));
             });
  bind_broadcast(module, "broadcast_async", "broadcast", broadcast_async);
  bind_broadcast(module, "broadcast_async_", "broadcast_", broadcast_async_);
  module.def(
      "alltoall_async", [](const at::Tensor& tensor, const std::optional<std::vector<std::int64_t>>& splits,
                           const Name& name, Members set) {
        const Scope scope = scope_of(set);
        return make_handle(PendingResult(alltoall_async(tensor, splits.value_or(std::vector<std::int64_t>()),
                                                        name_of("alltoall", name, scope), scope),
                                         true));
      });
}

}  // namespace

void bind_operations(py::module_& module) {
  py::enum_<ReduceOp>(module, "ReduceOp")
      .value("Average", ReduceOp::average)
      .value("Sum", ReduceOp::sum)
      .value("Adasum", ReduceOp::adasum)
      .value("Min", ReduceOp::min)
      .value("Max", ReduceOp::max)
      .value("Product", ReduceOp::product);
  bind_handle(module);
  bind_reductions(module);
  bind_moves(module);
  bind_rooted(module);
  bind_messages(module);
  module.def(
      "capture",
      [](const py::function& body, Members set) {
        capture([&] { with_python_lock([&] { body(); }); }, scope_of(set));
      },
      NoPythonLock());
  module.def("jobs_begun", &jobs_begun);
  module.def("check_job", [](std::uint64_t job) {
    if (job != jobs_begun())
      refuse("what was captured belongs to a job that has ended by shutdown(); capture it again");
    throw_if_error(default_runtime().failure());
  });
  module.def(
      "empty",
      [](const std::vector<std::int64_t>& sizes, at::ScalarType dtype) { return empty(sizes, dtype); },
      NoPythonLock());
}

}  // namespace rueda::python
