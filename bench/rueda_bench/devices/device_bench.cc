// SPDX-License-Identifier: Apache-2.0
#include "bench/rueda_bench/devices/device_bench.h"

#include "bench/rueda_bench/devices/device_subject.h"
#include "rueda/rueda.h"

namespace rueda::bench {
namespace {

class CudaBench final : public DeviceBench {
 public:
  explicit CudaBench(const Experiment& experiment) {
    init();
    device_ = cuda_bench_device(local_rank());
    subject_ = device_subject(default_runtime(), *device_);
    if (experiment.beside == "nccl") reference_ = nccl_reference(default_runtime(), *device_, nccl_library());
    if (experiment.beside == "nothing") reference_ = idle_reference(*device_);
  }
  CudaBench(const CudaBench&) = delete;
  CudaBench& operator=(const CudaBench&) = delete;
  ~CudaBench() override {
    reference_.reset();
    shutdown();
  }

  Subject& subject() override { return *subject_; }
  Reference* reference() override { return reference_.get(); }
  std::vector<PackRow> pack(const Experiment& experiment) override {
    std::vector<PackRow> rows =
        measure_pack(*device_, *experiment.workload, experiment.steps, experiment.warmup);
    for (PackRow& row : rows) {
      subject_->take_largest(row.seconds);
      subject_->take_largest(row.copied);
    }
    return rows;
  }

 private:
  std::unique_ptr<BenchDevice> device_;
  std::unique_ptr<Subject> subject_;
  std::unique_ptr<Reference> reference_;
};

}  // namespace

std::unique_ptr<DeviceBench> device_bench(const Experiment& experiment) {
  check_cuda();  // before ranks wait for each other
  return std::make_unique<CudaBench>(experiment);
}

}  // namespace rueda::bench
