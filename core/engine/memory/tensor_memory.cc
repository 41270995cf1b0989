// SPDX-License-Identifier: Apache-2.0
#include "core/engine/memory/tensor_memory.h"

#include <fmt/format.h>

#include <cstring>
#include <new>
#include <utility>

#include "core/base/error.h"
#include "core/base/host_buffer.h"

namespace rueda {

TensorMemory::TensorMemory(Rank rank, std::shared_ptr<SymmetricMemory> shared,
                           std::shared_ptr<Accelerator> accelerator, std::string no_accelerator,
                           OnDevice on_device)
    : rank_(rank),
      shared_(std::move(shared)),
      accelerator_(std::move(accelerator)),
      no_accelerator_(std::move(no_accelerator)),
      on_device_(std::move(on_device)) {}

std::shared_ptr<std::byte> TensorMemory::allocate(std::size_t bytes) {
  if (shared_) {
    if (std::shared_ptr<std::byte> shared = shared_->allocate(bytes)) return shared;
  }
  try {
    const auto buffer = std::make_shared<HostBuffer>(bytes);
    std::memset(buffer->data(), 0, bytes);
    return {buffer, buffer->data()};
  } catch (const std::bad_alloc&) {
    throw BackendError(Status::backend_error(fmt::format(
        "rank {}: there is no memory for a tensor of {} bytes; free some, use smaller tensors, or "
        "allow more (ulimit -v)",
        rank_, bytes)));
  }
}

std::shared_ptr<std::byte> TensorMemory::allocate_on_device(int device, std::size_t bytes) {
  const std::string problem = device_problem();
  if (!on_device_ || !problem.empty())
    refuse(fmt::format(
        "rank {} wants memory on device {}, but there is {}; use allocate() for tensors of the host.", rank_,
        device, problem.empty() ? "nothing that gives it" : problem));
  try {
    return on_device_(device, bytes);
  } catch (const std::bad_alloc&) {
    throw BackendError(Status::backend_error(fmt::format(
        "rank {}: there is no memory on device {} for {} bytes; free some, or use smaller tensors", rank_,
        device, bytes)));
  }
}

std::string TensorMemory::device_problem() const {
  return accelerator_ ? accelerator_->problem() : no_accelerator_;
}

}  // namespace rueda
