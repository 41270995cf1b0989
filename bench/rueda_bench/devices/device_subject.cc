// SPDX-License-Identifier: Apache-2.0
#include "bench/rueda_bench/devices/device_subject.h"

#include <fmt/format.h>

#include <cstring>
#include <stdexcept>
#include <thread>
#include <utility>

#include "core/base/operation_traits.h"
#include "core/byte_exchange.h"
#include "core/submission_arguments.h"
#include "ops/nccl/nccl_check.h"
#include "ops/nccl/nccl_lane.h"
#include "ops/nccl/nccl_launch.h"
#include "rueda/rueda.h"

namespace rueda::bench {
namespace {

// The same shape in other memory.
TensorView at(TensorView view, std::byte* memory) {
  view.data = memory;
  return view;
}

// Copies the owner's input to the device. The copy ends before a clock starts.
void upload(BenchDevice& device, CollectiveBuffers& buffers) {
  const TensorView input = buffers.input();
  device.to_device(input.data, input.bytes());
  device.finish();
}

// The result, where the host can read it.
const void* download(BenchDevice& device, CollectiveBuffers& buffers) {
  const TensorView output = buffers.output();
  device.to_host(output.data, output.bytes());
  device.finish();
  return output.data;
}

class DeviceSubject final : public Subject {
 public:
  DeviceSubject(Runtime& runtime, BenchDevice& device) : runtime_(runtime), device_(device) {}

  Rank rank() const override { return runtime_.topology().rank; }
  Rank size() const override { return runtime_.topology().size; }
  std::shared_ptr<std::byte> allocate(MemoryKind, std::size_t bytes) override {
    return device_.pinned(bytes);
  }

  double run(CollectiveBuffers& buffers, const void*& result, bool) override {
    upload(device_, buffers);
    barrier_async(runtime_).wait();  // wakes all; who is woken leaves late
    barrier_async(runtime_).wait();
    device_.clock().start(device_.stream());
    const Handle handle = runtime_.submit(submission(buffers));
    handle.wait();
    handle.fence()->hold_back(device_.stream());
    const double seconds = device_.clock().stop(device_.stream());
    barrier_async(runtime_).wait();
    result = download(device_, buffers);
    return seconds;
  }

  std::unique_ptr<BareLoop> bare_loop(MemoryKind, std::size_t) override { return nullptr; }
  void rest() override {}
  std::vector<std::string> gather(const std::string& word) override {
    return allgather_bytes(word, "bench.words", runtime_);
  }
  void take_largest(std::vector<double>& values) override {
    if (!values.empty())
      allreduce_async("bench.largest", view(values), view(values), {ReduceOp::max}, runtime_).wait();
  }

 private:
  Submission submission(CollectiveBuffers& buffers) {
    const Collective& what = buffers.what();
    const TensorView input = buffers.input(), output = buffers.output();
    Submission submission;
    Request& request = submission.request;
    request.name =
        fmt::format("bench.{}.{}.{}", to_string(what.operation), to_string(what.dtype), what.bytes);
    request.operation = what.operation;
    request.dtype = what.dtype;
    request.shape = input.shape;
    request.device = DeviceKind::cuda;
    set_reduction(request, Reduction{ReduceOp::sum});
    submission.input = at(input, device_.twin(input.data));
    if (traits(what.operation).makes_output) {
      submission.allocate = [out = at(output, device_.twin(output.data))](DataType, const Shape&) {
        return out;
      };
    } else {
      submission.output = at(output, device_.twin(output.data));
    }
    submission.device = device_.number();
    submission.stream = device_.stream();
    return submission;
  }

  Runtime& runtime_;
  BenchDevice& device_;
};

class NcclReference final : public Reference {
 public:
  NcclReference(Runtime& runtime, BenchDevice& device, const NcclLibrary& nccl)
      : runtime_(runtime), device_(device), nccl_(nccl.functions), lane_(nccl_, device.device(), 0) {
    ncclUniqueId id{};
    if (runtime_.topology().rank == 0) check(nccl_, nccl_.get_unique_id(&id), "ncclGetUniqueId");
    const TensorView word{id.internal, DataType::int8, {sizeof id.internal}, {}};
    broadcast_async("bench.nccl", word, word, 0, runtime_).wait();
    lane_.connect(id, runtime_.topology().size, runtime_.topology().rank);
    settle();
  }

  bool has(const Collective& what) const override { return nccl_type(what.dtype).has_value(); }
  std::shared_ptr<std::byte> allocate(std::size_t bytes) override { return device_.pinned(bytes); }

  double seconds(CollectiveBuffers& buffers) override {
    upload(device_, buffers);
    barrier_async(runtime_).wait();
    barrier_async(runtime_).wait();
    device_.clock().start(lane_.queue().stream());
    launch(buffers);
    settle();
    const double seconds = device_.clock().stop(lane_.queue().stream());
    barrier_async(runtime_).wait();
    const std::size_t wrong = buffers.wrong(download(device_, buffers));
    if (wrong > 0)
      throw std::runtime_error(fmt::format("--against nccl: {} elements of its result are wrong", wrong));
    return seconds;
  }

 private:
  void settle() {
    while (!lane_.ready()) std::this_thread::yield();
  }

  void launch(CollectiveBuffers& buffers) {
    const Rank size = runtime_.topology().size;
    const NcclEnd end{nccl_, lane_.comm(), static_cast<cudaStream_t>(lane_.queue().stream()), size,
                      runtime_.topology().rank};
    const Collective& what = buffers.what();
    const TensorView input = buffers.input(), output = buffers.output();
    const std::byte* from = device_.twin(input.data);
    std::byte* const to = device_.twin(output.data);
    const NcclReduction sum{*nccl_type(what.dtype), what.dtype == DataType::boolean ? ncclMax : ncclSum,
                            false};
    const auto members = static_cast<std::size_t>(size);
    auto parts_of = [&](const TensorView& tensor) {
      return std::vector<std::int64_t>(members, static_cast<std::int64_t>(tensor.bytes()) / size);
    };
    switch (what.operation) {
      case Operation::allreduce: {
        const NcclRun run{from, to, input.elements()};
        return launch_allreduce(end, sum, {&run, 1});
      }
      case Operation::broadcast:
        return launch_broadcast(end, from, to, static_cast<std::int64_t>(input.bytes()), 0);
      case Operation::allgather: return launch_allgather(end, from, to, parts_of(output));
      case Operation::reducescatter:
        return launch_reducescatter(end, sum, from, to, std::vector<std::int64_t>(members, output.elements()),
                                    size_of(what.dtype));
      case Operation::alltoall: return launch_alltoall(end, from, to, parts_of(input), parts_of(output));
      case Operation::reduce:
      case Operation::gather:
      case Operation::scatter:
      case Operation::message:
      case Operation::barrier:
      case Operation::join:
      case Operation::add_process_set:
      case Operation::remove_process_set: break;
    }
    no_collective(what.operation);
  }

  Runtime& runtime_;
  BenchDevice& device_;
  const NcclFunctions& nccl_;
  NcclLane lane_;
};

class IdleReference final : public Reference {
 public:
  explicit IdleReference(BenchDevice& device) : device_(device) {}
  bool has(const Collective&) const override { return true; }
  std::shared_ptr<std::byte> allocate(std::size_t bytes) override { return device_.pinned(bytes); }
  double seconds(CollectiveBuffers& buffers) override {
    upload(device_, buffers);
    device_.clock().start(device_.stream());
    return device_.clock().stop(device_.stream());
  }

 private:
  BenchDevice& device_;
};

}  // namespace

std::unique_ptr<Subject> device_subject(Runtime& runtime, BenchDevice& device) {
  return std::make_unique<DeviceSubject>(runtime, device);
}

std::unique_ptr<Reference> nccl_reference(Runtime& runtime, BenchDevice& device, const NcclLibrary& nccl) {
  if (!nccl.problem.empty()) throw std::runtime_error("--against nccl: " + nccl.problem);
  return std::make_unique<NcclReference>(runtime, device, nccl);
}

std::unique_ptr<Reference> idle_reference(BenchDevice& device) {
  return std::make_unique<IdleReference>(device);
}

}  // namespace rueda::bench
