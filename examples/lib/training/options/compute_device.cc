// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/options/compute_device.h"

#include <ATen/Context.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <torch/nn/module.h>

#include <array>
#include <charconv>
#include <climits>
#include <limits>
#include <string_view>

#include <rueda/torch.h>
#include "core/engine/runtime.h"
#include "frameworks/torch/collectives/agreement.h"

namespace rueda::examples {
namespace {

using Kind = DeviceChoice::Kind;

constexpr std::string_view kNumbered = "cuda:";
constexpr Choices<Kind, 3> kKinds{{{"cpu", Kind::cpu}, {"cuda", Kind::cuda}, {"auto", Kind::automatic}}};

int cuda_devices() {
  if (!c10::impl::hasDeviceGuardImpl(at::kCUDA)) return 0;
  return c10::impl::getDeviceGuardImpl(at::kCUDA)->deviceCount();
}

// The library that lies beside the one for the CPU: no other fits that. Why it cannot be loaded; empty when
// it is there.
std::string load_cuda_library() {
  if (c10::impl::hasDeviceGuardImpl(at::kCUDA)) return {};
  void* own = ::dlopen("libtorch_cpu.so", RTLD_NOW | RTLD_NOLOAD);
  std::array<char, PATH_MAX> folder{};
  if (own == nullptr || ::dlinfo(own, RTLD_DI_ORIGIN, folder.data()) != 0) return ::dlerror();
  const std::string file = std::string(folder.data()) + "/libtorch_cuda.so";
  return ::dlopen(file.c_str(), RTLD_NOW) == nullptr ? std::string(::dlerror()) : std::string();
}

// Why torch has no CUDA device here, in the loader's or its own words; empty where it has one.
std::string cuda_trouble() {
  static const std::string not_loaded = load_cuda_library();
  if (!not_loaded.empty()) return "torch's library for it is not there: " + not_loaded;
  if (cuda_devices() > 0) return {};
  try {
    at::globalContext().lazyInitDevice(at::kCUDA);  // knows why
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "there is no device";
}

// Of this choice on this machine.
std::string trouble_with(const DeviceChoice& choice) {
  std::string trouble = cuda_trouble();
  if (!trouble.empty() || !choice.number || *choice.number < cuda_devices()) return trouble;
  return fmt::format("of {} devices, numbered from 0, none is {}", cuda_devices(), *choice.number);
}

[[noreturn]] void refuse_cuda(const DeviceChoice& choice, const std::string& trouble) {
  throw UsageError(fmt::format(
      "--device {}: CUDA cannot be used: {}. Give --device cpu, or auto, which takes the CPU where "
      "there is no CUDA",
      device_word(choice), trouble));
}

DeviceChoice device_choice(const std::string& value) {
  if (value.starts_with(kNumbered)) {
    int number = 0;
    const char* begin = value.data() + kNumbered.size();
    const char* end = value.data() + value.size();
    const auto [stop, error] = std::from_chars(begin, end, number);
    const bool is_number = error == std::errc() && stop == end && begin != end;
    if (!is_number || number < 0 || number > std::numeric_limits<at::DeviceIndex>::max())
      throw UsageError(fmt::format("--device is '{}'; behind cuda: must be the number of a device", value));
    return {.kind = Kind::cuda, .number = number};
  }
  for (const auto& [word, kind] : kKinds) {
    if (value == word) return {.kind = kind, .number = std::nullopt};
  }
  throw UsageError(fmt::format("--device is '{}'; it must be cpu or cuda or cuda:N or auto", value));
}

}  // namespace

void add_device_flag(Flags& flags, DeviceChoice& choice) {
  flags.text(
      "device", [&choice](const std::string& value) { choice = device_choice(value); }, "NAME",
      "where to compute: cpu (the default); cuda: each rank on a device of its host, by its place there; "
      "cuda:N; auto: "
      "cuda where all ranks have it, else cpu");
}

std::string device_word(const DeviceChoice& choice) {
  return choice.number ? fmt::format("{}{}", kNumbered, *choice.number) : name_of(choice.kind, kKinds);
}

void prepare_device(const DeviceChoice& choice) {
  if (choice.kind == Kind::cpu) return;
  const std::string trouble = trouble_with(choice);
  if (choice.kind == Kind::cuda && !trouble.empty()) refuse_cuda(choice, trouble);
}

int device_number(const DeviceChoice& choice, int local_rank, int devices) {
  return choice.number ? *choice.number : local_rank % devices;
}

at::Device agree_on_device(const DeviceChoice& choice) {
  if (choice.kind == Kind::cpu) return at::kCPU;
  Runtime& runtime = default_runtime();
  std::string trouble = trouble_with(choice);
  if (trouble.empty()) trouble = runtime.device_problem();
  // A new rank of an elastic job comes alone, and --elastic takes no `auto`.
  const std::string troubles = is_elastic() ? trouble : failures_of_all("training.device", trouble, runtime);
  if (!troubles.empty() && choice.kind == Kind::cuda) refuse_cuda(choice, troubles);
  if (!troubles.empty()) {
    if (rank() == 0) fmt::print("--device auto: cpu, for CUDA cannot be used: {}\n", troubles);
    return at::kCPU;
  }
  const int number = device_number(choice, static_cast<int>(local_rank()), cuda_devices());
  const at::Device device(at::kCUDA, static_cast<at::DeviceIndex>(number));
  c10::impl::getDeviceGuardImpl(at::kCUDA)->setDevice(device);
  return device;
}

at::Device device_of(const torch::nn::Module& module) {
  const std::vector<at::Tensor> parameters = module.parameters();
  return parameters.empty() ? at::Device(at::kCPU) : parameters.front().device();
}

std::string kind_of(at::Device device) { return c10::DeviceTypeName(device.type(), /*lower_case=*/true); }

}  // namespace rueda::examples
