// SPDX-License-Identifier: Apache-2.0
// The training pass of rueda.torch.SyncBatchNorm. Its parameters and statistics are the Python module's.
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <cstdint>
#include <optional>

#include "python/src/torch_module.h"
#include "rueda/torch/nn/sync_batch_norm.h"

namespace py = pybind11;

namespace rueda::python {
namespace {

at::Tensor or_none(const std::optional<at::Tensor>& tensor) { return tensor.value_or(at::Tensor()); }

// Purpose: one SyncBatchNorm of the C++ frontend. Used by the thread that runs the module.
class Normaliser {
 public:
  Normaliser(std::int64_t features, double eps, const std::optional<double>& momentum, Members set)
      : norm_(torch::nn::BatchNormOptions(features)
                  .eps(eps)
                  .momentum(momentum)
                  .affine(false)
                  .track_running_stats(false),
              scope_of(set)) {}

  at::Tensor forward(const at::Tensor& input, const std::optional<at::Tensor>& weight,
                     const std::optional<at::Tensor>& bias, const std::optional<at::Tensor>& running_mean,
                     const std::optional<at::Tensor>& running_var,
                     const std::optional<at::Tensor>& num_batches_tracked) {
    norm_.weight = or_none(weight);
    norm_.bias = or_none(bias);
    norm_.running_mean = or_none(running_mean);
    norm_.running_var = or_none(running_var);
    norm_.num_batches_tracked = or_none(num_batches_tracked);
    return norm_.forward(input);
  }

 private:
  SyncBatchNormImpl norm_;
};

}  // namespace

void bind_sync_batch_norm(py::module_& module) {
  py::class_<Normaliser>(module, "SyncBatchNorm")
      .def(py::init<std::int64_t, double, std::optional<double>, Members>())
      .def("forward", &Normaliser::forward, NoPythonLock());
}

}  // namespace rueda::python
