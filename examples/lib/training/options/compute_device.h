// SPDX-License-Identifier: Apache-2.0
// The device of a run: the CPU, or a CUDA device of each rank's own.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <string>

#include "examples/lib/training/options/flags.h"

namespace torch::nn {
class Module;
}

namespace rueda::examples {

// The value of --device.
struct DeviceChoice {
  enum class Kind : std::uint8_t { cpu, cuda, automatic };
  Kind kind = Kind::cpu;
  std::optional<int> number;  // of cuda:N; unset: each rank has that of its local rank
};

// Adds the row of --device, which any program that runs a model has.
void add_device_flag(Flags& flags, DeviceChoice& choice);
// As --device says it.
std::string device_word(const DeviceChoice& choice);

// Loads torch's library for CUDA if the choice may need it; a program links the one for the CPU only. Must
// run before any use of torch, which asks once for the devices. Throws UsageError if --device cuda is not
// possible.
void prepare_device(const DeviceChoice& choice);

// The device of this rank, which is then the calling thread's current one. If a rank has none, all ranks get
// the CPU from `auto`, with a line on it from rank 0, and from `cuda` UsageError in the same words.
// Collective, after prepare_device() and rueda::init(), with the same choice on every rank.
at::Device agree_on_device(const DeviceChoice& choice);

// The device number of a rank by its local rank, if there are `devices` of them.
int device_number(const DeviceChoice& choice, int local_rank, int devices);

// Of a model's first parameter.
at::Device device_of(const torch::nn::Module& module);
// "cpu" or "cuda".
std::string kind_of(at::Device device);

}  // namespace rueda::examples
