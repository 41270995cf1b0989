// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/torch/fake_torch_tensors.h"

#include <ATen/SparseTensorImpl.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>

namespace rueda::fake_torch {
namespace {

// Purpose: memory as torch's allocator for devices gives it: for one stream, which may have it again at once,
// and for others that say so. Freed it is overwritten, unless it is somebody else's as well, behind what
// these streams have been given until then.
struct Block {
  Block(c10::Storage memory, c10::Stream of) : kept(std::move(memory)), stream(of) {}

  const c10::Storage kept;
  const c10::Stream stream;
  std::mutex mutex;
  std::vector<c10::Stream> others;  // guarded by mutex
};

void free_block(void* context) {
  const std::shared_ptr<Block> block(static_cast<Block*>(context));
  FakeDevice* const device = device_of(block->stream.device_index());
  if (device == nullptr || device->keep_in_graph(handle_of(block->stream), block)) return;
  block->others.push_back(block->stream);
  static char frees;  // a stream that nobody else has
  for (const c10::Stream& stream : block->others) device->record(handle_of(stream))->hold_back(&frees);
  device->give(&frees, [block] {
    const c10::Storage& memory = block->kept;
    const bool owned = memory.data_ptr().get_context() != nullptr && memory.use_count() == 1;
    if (owned) std::memset(memory.mutable_data(), 0x5a, memory.nbytes());
  });
}

Block* block_of(const at::DataPtr& memory) {
  return memory.get_deleter() == &free_block ? static_cast<Block*>(memory.get_context()) : nullptr;
}

at::DataPtr block_for(const at::Tensor& result, at::DeviceIndex index) {
  auto block = std::make_unique<Block>(result.storage(), current_stream(index));
  return {result.storage().mutable_data(), block.release(), &free_block, {at::kCUDA, index}};
}

at::Tensor made_of(const at::Tensor& result, c10::Storage storage) {
  at::Tensor made = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CUDA), result.dtype());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(result.sizes(), result.strides(),
                                                    result.storage_offset());
  return made;
}

// Where it really is: some of it torch has from Rueda.
void* data_of(const c10::Storage& storage) {
  return FakeDevice::real(static_cast<char*>(const_cast<void*>(storage.data())));
}

// The same memory. Keeps nothing alive.
c10::Storage host_storage(const c10::Storage& storage) {
  return {c10::Storage::use_byte_size_t(), storage.nbytes(), at::DataPtr(data_of(storage), at::kCPU),
          c10::GetCPUAllocator(),
          /*resizable=*/true};
}

bool is_sparse(const at::Tensor& tensor) { return tensor.layout() == at::kSparse; }
at::SparseTensorImpl* impl_of(const at::Tensor& sparse) {
  return static_cast<at::SparseTensorImpl*>(sparse.unsafeGetTensorImpl());
}

void set_parts(const at::Tensor& sparse, const at::Tensor& indices, const at::Tensor& values,
               bool coalesced) {
  at::SparseTensorImpl* const impl = impl_of(sparse);
  impl->set_indices_and_values_unsafe(indices, values);
  impl->set_coalesced(coalesced);
}

at::Tensor sparse_of(c10::DispatchKey where, const at::Tensor& like, const at::Tensor& indices,
                     const at::Tensor& values) {
  const c10::OptionalDeviceGuard there(values.is_cuda() ? std::optional(values.device()) : std::nullopt);
  at::Tensor made = at::detail::make_tensor<at::SparseTensorImpl>(c10::DispatchKeySet(where), like.dtype());
  const at::SparseTensorImpl* const impl = impl_of(like);
  impl_of(made)->raw_resize_(impl->sparse_dim(), impl->dense_dim(), like.sizes());
  set_parts(made, indices, values, impl->coalesced());
  return made;
}

}  // namespace

void record_data_ptr_on_stream(const at::DataPtr& memory, const c10::Stream& stream) {
  Block* const block = block_of(memory);
  if (block == nullptr || block->stream == stream) return;
  const std::lock_guard lock(block->mutex);
  block->others.push_back(stream);
}

bool is_kept_for(const at::Tensor& tensor, const c10::Stream& stream) {
  Block* const block = block_of(tensor.storage().data_ptr());
  if (block == nullptr) return false;
  const std::lock_guard lock(block->mutex);
  return block->stream == stream || std::ranges::count(block->others, stream) > 0;
}

at::Tensor Aliases::to_host(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cuda()) return tensor;
  for (const auto& [known, alias] : aliases_) {
    if (known.is_same(tensor)) return alias;
  }
  at::Tensor alias = alias_of(tensor);
  return aliases_.emplace_back(tensor, std::move(alias)).second;
}

// The same elements on the host. Keeps nothing alive.
at::Tensor Aliases::alias_of(const at::Tensor& tensor) {
  if (is_sparse(tensor)) {
    const at::SparseTensorImpl* const impl = impl_of(tensor);
    return sparse_of(c10::DispatchKey::SparseCPU, tensor, to_host(impl->indices()), to_host(impl->values()));
  }
  at::Tensor alias = at::detail::make_tensor<c10::TensorImpl>(
      host_storage(tensor.storage()), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  alias.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(),
                                                     tensor.storage_offset());
  return alias;
}

at::Tensor Aliases::from_host(const at::Tensor& result, at::DeviceIndex index) const {
  if (!result.defined()) return result;
  for (const auto& [tensor, alias] : aliases_) {
    if (alias.is_same(result)) return tensor;
  }
  if (is_sparse(result)) {
    const at::SparseTensorImpl* const impl = impl_of(result);
    return sparse_of(c10::DispatchKey::SparseCUDA, result, from_host(impl->indices(), index),
                     from_host(impl->values(), index));
  }
  for (const auto& [tensor, alias] : aliases_) {
    if (!is_sparse(alias) && alias.storage().is_alias_of(result.storage()))
      return made_of(result, tensor.storage());
  }
  return made_of(result, c10::Storage(c10::Storage::use_byte_size_t(), result.storage().nbytes(),
                                      block_for(result, index)));
}

c10::Storage Aliases::to_host(const c10::Storage& storage) {
  if (storage.device_type() != at::kCUDA) return storage;
  return storages_.emplace_back(storage, host_storage(storage)).second;
}

void Aliases::take_over(at::DeviceIndex index) const {
  for (const auto& [tensor, alias] : aliases_) {
    if (is_sparse(tensor)) {
      const at::SparseTensorImpl* const impl = impl_of(alias);
      set_parts(tensor, from_host(impl->indices(), index), from_host(impl->values(), index),
                impl->coalesced());
    } else {
      take_over(tensor, alias, index);
    }
  }
}

// What the operator has resized, or given other memory.
void Aliases::take_over(const at::Tensor& tensor, const at::Tensor& alias, at::DeviceIndex index) const {
  const bool same_memory = data_of(tensor.storage()) == alias.storage().data();
  if (tensor.sizes() == alias.sizes() && same_memory) return;
  const auto set = std::ranges::find_if(
      storages_, [&](const auto& each) { return each.second.is_alias_of(alias.storage()); });
  if (set != storages_.end()) {
    tensor.unsafeGetTensorImpl()->set_storage_keep_dtype(set->first);
  } else if (!same_memory) {
    tensor.storage().unsafeGetStorageImpl()->set_data_ptr(block_for(alias, index));
    tensor.storage().unsafeGetStorageImpl()->set_nbytes(alias.storage().nbytes());
  }
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(alias.sizes(), alias.strides(), alias.storage_offset());
}

}  // namespace rueda::fake_torch
