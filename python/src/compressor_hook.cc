// SPDX-License-Identifier: Apache-2.0
#include "python/src/compressor_hook.h"

#include <torch/csrc/utils/pybind.h>

#include <optional>
#include <utility>

#include "python/src/python_lock.h"
#include "rueda/torch/collectives/operations.h"

namespace py = pybind11;

namespace rueda::python {
namespace {

// Purpose: the gradient of one parameter on its way as a Compressor makes it. Takes Python's lock for
// compress() and decompress() alone.
class CompressorHook final : public CommunicationHook {
 public:
  CompressorHook(std::shared_ptr<const Compressor> compressor, HookedParameter of)
      : compressor_(std::move(compressor)), of_(std::move(of)) {}
  ~CompressorHook() override { clear(); }
  CompressorHook(const CompressorHook&) = delete;
  CompressorHook& operator=(const CompressorHook&) = delete;

  void begin(const at::Tensor& gradient) override {
    gradient_ = gradient;
    at::Tensor packed;
    with_python_lock([&] {
      auto pair = compressor_->get().attr("compress")(gradient).cast<std::pair<at::Tensor, py::object>>();
      packed = std::move(pair.first);
      context_ = std::move(pair.second);
    });
    // A failed operation may write its output for some time yet, and the gradient is the program's by then.
    const bool own = !packed.is_alias_of(gradient);
    const Scope scope = of_.scope.get();
    sum_ = own ? allreduce_async_(packed, of_.operation, of_.reduction, scope)
               : allreduce_async(packed, of_.operation, of_.reduction, scope);
  }

  Status finish() override {
    Status status = sum_->wait_status();
    if (!status.ok()) return status;
    const at::Tensor sum = sum_->wait();
    at::Tensor result;
    with_python_lock(
        [&] { result = compressor_->get().attr("decompress")(sum, context_).cast<at::Tensor>(); });
    gradient_.copy_(result.view(gradient_.sizes()));
    return status;
  }

  void clear() override {
    gradient_.reset();
    sum_.reset();
    if (context_) with_python_lock([this] { context_ = py::object(); });
  }

 private:
  const std::shared_ptr<const Compressor> compressor_;
  const HookedParameter of_;
  at::Tensor gradient_;
  py::object context_;  // the context of decompress()
  std::optional<TensorHandle> sum_;
};

}  // namespace

Compressor::~Compressor() {
  with_python_lock([this] { compressor_ = py::object(); });
}

CommunicationHookOptions hook_of(std::shared_ptr<const Compressor> compressor) {
  if (!compressor) return {};
  return {.name = "compressor in Python",
          .make = [compressor = std::move(compressor)](
                      const HookedParameter& of) { return std::make_unique<CompressorHook>(compressor, of); },
          .applies = nullptr};
}

void bind_compressor(py::module_& module) {
  py::class_<Compressor, std::shared_ptr<Compressor>>(module, "Compressor").def(py::init<py::object>());
}

}  // namespace rueda::python
