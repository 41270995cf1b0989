// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/torch/fake_torch_devices.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/fakes/cuda/fake_pinned_memory.h"
#include "tests/fakes/torch/fake_torch_tensors.h"

namespace rueda {
namespace {

constexpr int kOfProgram = 4;  // streams of each device; 0 is the default one
constexpr int kOfPool = 4;     // and those that torch gives by itself
constexpr int kStreams = kOfProgram + kOfPool;

struct DeviceState {
  std::mutex mutex;
  FakeDevice* device = nullptr;  // guarded by mutex
  std::atomic<long> host_waits{0};
  std::atomic<long> copies{0};
  std::atomic<std::uintptr_t> given{0};  // operators
  std::atomic<bool> otherwise{false};    // it computes
  std::atomic<unsigned> taken{0};        // streams of the pool
  std::array<char, kStreams> handles{};  // their addresses name the streams
};

std::array<DeviceState, FakeTorchDevice::kMost>& device_states() {
  static std::array<DeviceState, FakeTorchDevice::kMost> all;
  return all;
}

thread_local at::DeviceIndex device_of_this_thread = 0;
thread_local std::array<c10::StreamId, FakeTorchDevice::kMost> current_streams{};

}  // namespace

FakeDevice* fake_torch::device_of(at::DeviceIndex index) {
  DeviceState& state = device_states()[static_cast<std::size_t>(index)];
  const std::lock_guard lock(state.mutex);
  return state.device;
}

DeviceStream fake_torch::handle_of(const c10::Stream& stream) {
  return &device_states()[static_cast<std::size_t>(stream.device_index())]
              .handles[static_cast<std::size_t>(stream.id())];
}

c10::Stream fake_torch::current_stream(at::DeviceIndex index) {
  return c10::impl::getDeviceGuardImpl(at::kCUDA)->getStream({at::kCUDA, index});
}

namespace {

// Purpose: what torch knows of devices and their streams. One a process.
struct Guard final : c10::impl::DeviceGuardImplInterface {
  static at::Device device_of(at::DeviceIndex index) { return {at::kCUDA, index}; }
  c10::DeviceType type() const override { return at::kCUDA; }
  at::Device exchangeDevice(at::Device device) const override {
    return device_of(std::exchange(device_of_this_thread, device.index()));
  }
  at::Device getDevice() const override { return device_of(device_of_this_thread); }
  void setDevice(at::Device device) const override { device_of_this_thread = device.index(); }
  void uncheckedSetDevice(at::Device device) const noexcept override {
    device_of_this_thread = device.index();
  }
  c10::Stream getStream(at::Device device) const override {
    const at::DeviceIndex index = device.has_index() ? device.index() : device_of_this_thread;
    return c10::Stream(c10::Stream::UNSAFE, device_of(index),
                       current_streams[static_cast<std::size_t>(index)]);
  }
  c10::Stream getDefaultStream(at::Device device) const override {
    return c10::Stream(c10::Stream::UNSAFE, device, 0);
  }
  c10::Stream getStreamFromGlobalPool(at::Device device, bool) const override {
    DeviceState& state = device_states()[static_cast<std::size_t>(device.index())];
    return c10::Stream(c10::Stream::UNSAFE, device, kOfProgram + state.taken++ % kOfPool);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const auto index = static_cast<std::size_t>(stream.device_index());
    return c10::Stream(c10::Stream::UNSAFE, stream.device(),
                       std::exchange(current_streams[index], stream.id()));
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override {
    return fake_torch::handle_of(stream);
  }
  void recordDataPtrOnStream(const c10::DataPtr& memory, const c10::Stream& stream) const override {
    fake_torch::record_data_ptr_on_stream(memory, stream);
  }
  at::DeviceIndex deviceCount() const noexcept override { return FakeTorchDevice::kMost; }
  struct Event {
    DeviceState* state = nullptr;
    std::uintptr_t given = 0;  // operators, when it was recorded
    std::shared_ptr<const Fence> fence;
  };
  void record(void** event, const c10::Stream& stream, at::DeviceIndex, c10::EventFlag) const override {
    if (*event == nullptr) *event = new Event;
    DeviceState& state = device_states()[static_cast<std::size_t>(stream.device_index())];
    FakeDevice* const device = fake_torch::device_of(stream.device_index());
    *static_cast<Event*>(*event) = {&state, state.given, device->record(fake_torch::handle_of(stream))};
  }
  void block(void* event, const c10::Stream& stream) const override {
    static_cast<Event*>(event)->fence->hold_back(fake_torch::handle_of(stream));
  }
  void destroyEvent(void* event, at::DeviceIndex) const noexcept override {
    delete static_cast<Event*>(event);
  }
  bool queryEvent(void* event) const override { return static_cast<const Event*>(event)->fence->passed(); }
  // The host waits for the device where it has given it nothing more to do meanwhile.
  void synchronizeEvent(void* event) const override {
    const auto& recorded = *static_cast<const Event*>(event);
    if (recorded.state->given == recorded.given) ++recorded.state->host_waits;
  }
};

// Purpose: that there are devices at all, as autograd's engine asks. Made by torch's registry.
struct Hooks final : at::CUDAHooksInterface {
  explicit Hooks(at::CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(at::DeviceIndex) const override { return true; }
  int getNumGPUs() const override { return FakeTorchDevice::kMost; }
  at::DeviceIndex deviceCount() const override { return FakeTorchDevice::kMost; }
  at::DeviceIndex current_device() const override { return device_of_this_thread; }
  at::DeviceIndex getCurrentDevice() const override { return device_of_this_thread; }
  at::Allocator* getPinnedMemoryAllocator() const override { return &FakePinnedMemory::instance(); }
  bool isPinnedPtr(const void* data) const override { return FakePinnedMemory::instance().has(data); }
  const at::Generator& getDefaultGenerator(at::DeviceIndex) const override {
    return at::detail::getDefaultCPUGenerator();
  }
};

}  // namespace
}  // namespace rueda

namespace at {
using CUDAHooks = rueda::Hooks;  // the name by which torch looks for them
REGISTER_CUDA_HOOKS(CUDAHooks)
}  // namespace at

namespace rueda {
namespace {

auto& registry() { return c10::impl::device_guard_impl_registry[static_cast<std::size_t>(at::kCUDA)]; }

// Until all that the thread's current stream waits for has happened.
void drain(at::DeviceIndex index) {
  FakeDevice* const device = fake_torch::device_of(index);
  TORCH_CHECK(device != nullptr, "cuda:", static_cast<int>(index), " is no fake device now");
  const std::shared_ptr<const Fence> fence =
      device->record(fake_torch::handle_of(fake_torch::current_stream(index)));
  constexpr int kMoves = 64;  // of the device, before others may be what it waits for
  for (int moves = 1; !fence->passed(); ++moves) {
    if (moves % kMoves == 0) std::this_thread::yield();
  }
}

// Purpose: one call of an operator, of which the tensors on a device are replaced by those on the host and
// the results by tensors there. Lives on the caller's stack.
class Call {
 public:
  void run(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    const std::size_t count = op.schema().arguments().size();
    const auto arguments = torch::jit::last(*stack, count);
    for (const c10::IValue& each : arguments) look_at(each);
    if (index_ < 0) index_ = device_of_this_thread;
    drain(index_);
    ++device_states()[static_cast<std::size_t>(index_)].given;
    check_devices(op, arguments);
    count_wait(op, arguments);
    std::vector<c10::IValue> on_host;
    for (const c10::IValue& each : arguments) on_host.push_back(to_host(each));
    torch::jit::drop(*stack, count);
    stack->insert(stack->end(), on_host.begin(), on_host.end());
    on_host.clear();
    {
      const at::AutoDispatchBelowADInplaceOrView below;
      op.callBoxed(stack);
    }
    const std::size_t results = op.schema().returns().size();
    if (device_states()[static_cast<std::size_t>(index_)].otherwise) change_last_bits(op, *stack);
    for (std::size_t i = stack->size() - results; i < stack->size(); ++i)
      (*stack)[i] = from_host((*stack)[i]);
    aliases_.take_over(index_);
  }

 private:
  void look_at(const c10::IValue& value) {
    if (value.isTensor()) {
      if (value.toTensor().defined() && value.toTensor().is_cuda())
        index_ = value.toTensor().device().index();
    } else if (value.isDevice() && value.toDevice().is_cuda()) {
      if (index_ < 0)
        index_ = value.toDevice().has_index() ? value.toDevice().index() : device_of_this_thread;
    } else if (value.isList()) {
      for (const c10::IValue& each : value.toListRef()) look_at(each);
    }
  }

  // What a kernel reads and writes lies where it runs. A scalar may be on the host, but for the step that a
  // fused optimizer reads on the device.
  void check_devices(const c10::OperatorHandle& op, at::ArrayRef<c10::IValue> arguments) const {
    const std::string& name = op.schema().name();
    const bool copies = name == "aten::copy_" || name == "aten::_copy_from" || name == "aten::set_";
    const bool takes_scalars = !name.starts_with("aten::_fused_");
    const auto check = [&](const at::Tensor& tensor) {
      const bool fits = !tensor.defined() || tensor.is_cuda() || (takes_scalars && tensor.dim() == 0);
      TORCH_CHECK(fits, name, ": a tensor of shape ", tensor.sizes(), " is on the host, others on a device");
    };
    for (const c10::IValue& each : arguments) {
      if (copies) break;
      if (each.isTensor()) check(each.toTensor());
      if (!each.isTensorList()) continue;
      for (const c10::IValue& one : each.toListRef()) check(one.toTensor());
    }
  }

  void count_wait(const c10::OperatorHandle& op, at::ArrayRef<c10::IValue> arguments) const {
    const std::string& name = op.schema().name();
    const bool reads = name == "aten::_local_scalar_dense" || name == "aten::nonzero";
    const bool copies = name == "aten::copy_" || name == "aten::_copy_from";
    const bool crosses = copies && arguments[0].toTensor().is_cuda() != arguments[1].toTensor().is_cuda();
    const bool waits =
        crosses && !(arguments[2].toBool() && is_pinned(arguments[0]) && is_pinned(arguments[1]));
    DeviceState& state = device_states()[static_cast<std::size_t>(index_)];
    if (reads || waits) ++state.host_waits;
    if (copies && !crosses) ++state.copies;
  }

  // Or on a device.
  static bool is_pinned(const c10::IValue& value) {
    const at::Tensor& tensor = value.toTensor();
    return tensor.is_cuda() || FakePinnedMemory::instance().has(tensor.storage().data());
  }

  static void change_last_bits(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
    const std::string& name = op.schema().name();
    if (name != "aten::mm" && name != "aten::addmm" && name != "aten::linalg_vector_norm") return;
    at::Tensor result = stack.back().toTensor();
    result.mul_(result.scalar_type() == at::kFloat ? 1 + 0x1p-22 : 1 + 0x1p-50);
  }

  c10::IValue to_host(const c10::IValue& value) {
    if (value.isTensor()) return aliases_.to_host(value.toTensor());
    if (value.isStorage()) return aliases_.to_host(value.toStorage());
    if (value.isDevice() && value.toDevice().is_cuda()) return at::Device(at::kCPU);
    if (!value.isList()) return value;
    if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const c10::IValue& each : value.toListRef()) {
        TORCH_CHECK(each.toTensor().is_cuda(), "a kernel for lists is given a tensor of the host");
        list.push_back(aliases_.to_host(each.toTensor()));
      }
      return list;
    }
    if (!value.isOptionalTensorList()) return value;
    c10::List<std::optional<at::Tensor>> list;
    for (const c10::IValue& each : value.toListRef())
      list.push_back(each.isNone() ? std::nullopt : std::optional(aliases_.to_host(each.toTensor())));
    return list;
  }
  c10::IValue from_host(const c10::IValue& value) {
    if (value.isTensor()) return aliases_.from_host(value.toTensor(), index_);
    if (!value.isTensorList()) return value;
    c10::List<at::Tensor> list;
    for (const c10::IValue& each : value.toListRef())
      list.push_back(aliases_.from_host(each.toTensor(), index_));
    return list;
  }

  at::DeviceIndex index_ = -1;
  fake_torch::Aliases aliases_;
};

void on_a_fake(const c10::OperatorHandle& op, torch::jit::Stack* stack) { Call().run(op, stack); }

// Before anything runs: autograd's engine counts devices once.
bool install() {
  if (c10::impl::hasDeviceGuardImpl(at::kCUDA)) return false;
  static const Guard guard;
  registry() = &guard;
  static torch::Library library(torch::Library::IMPL, "_", c10::DispatchKey::CUDA, __FILE__, __LINE__);
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&on_a_fake>());
  static torch::Library sparse(torch::Library::IMPL, "_", c10::DispatchKey::SparseCUDA, __FILE__, __LINE__);
  sparse.fallback(torch::CppFunction::makeFromBoxedFunction<&on_a_fake>());
  // One kernel for all devices looks up a function for CUDA.
  static torch::Library aten(torch::Library::IMPL, "aten", c10::DispatchKey::CUDA, __FILE__, __LINE__);
  aten.impl("copy_", torch::CppFunction::makeFromBoxedFunction<&on_a_fake>());
  // What else comes before a fallback.
  static torch::Library of_sparse(torch::Library::IMPL, "aten", c10::DispatchKey::SparseCUDA, __FILE__,
                                  __LINE__);
  for (const char* name :
       {"clone", "copy_", "dense_dim", "empty_like", "indices", "is_coalesced", "sparse_dim", "values"})
    of_sparse.impl(name, torch::CppFunction::makeFromBoxedFunction<&on_a_fake>());
  return true;
}

const bool installed = install();

}  // namespace

bool FakeTorchDevice::possible() { return installed; }

FakeTorchDevice::FakeTorchDevice(int number, FakeDevice& device) : number_(number) {
  DeviceState& state = device_states()[static_cast<std::size_t>(number)];
  const std::lock_guard lock(state.mutex);
  state.device = &device;
  state.host_waits = 0;
  state.copies = 0;
  state.otherwise = false;
  device_of_this_thread = static_cast<at::DeviceIndex>(number);
}

FakeTorchDevice::~FakeTorchDevice() {
  DeviceState& state = device_states()[static_cast<std::size_t>(number_)];
  const std::lock_guard lock(state.mutex);
  state.device = nullptr;
}

void FakeTorchDevice::compute_otherwise() const {
  device_states()[static_cast<std::size_t>(number_)].otherwise = true;
}

bool FakeTorchDevice::is_kept_for(const at::Tensor& tensor, c10::StreamId id) const {
  return fake_torch::is_kept_for(tensor, stream(id));
}

long FakeTorchDevice::host_waits() const {
  return device_states()[static_cast<std::size_t>(number_)].host_waits;
}
long FakeTorchDevice::copies() const { return device_states()[static_cast<std::size_t>(number_)].copies; }

}  // namespace rueda
