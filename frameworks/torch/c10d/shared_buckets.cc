// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/shared_buckets.h"

#include <c10/core/Allocator.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

namespace rueda {
namespace {

using Block = std::shared_ptr<std::byte>;

void let_go(void* block) { delete static_cast<Block*>(block); }

bool is_shared(const c10::StorageImpl& storage) { return storage.data_ptr().get_deleter() == &let_go; }

}  // namespace

c10::intrusive_ptr<c10::ivalue::Future> SharedBuckets::runHook(c10d::GradBucket& bucket) {
  std::vector<at::Tensor> tensors{bucket.getBufferRef()};
  c10d::AllreduceOptions options;
  if (tensors[0].is_sparse()) {
    tensors[0].div_(state_->getSize());
  } else {
    options.reduceOp = c10d::ReduceOp::AVG;
    share(*tensors[0].storage().unsafeGetStorageImpl());
  }
  return state_->allreduce(tensors, options)->getFuture();
}

// Memory that NumPy looks at stays where it is. torch makes its storage one that cannot be resized.
void SharedBuckets::share(c10::StorageImpl& storage) {
  if (!has_room_ || storage.device_type() != c10::DeviceType::CPU || storage.nbytes() == 0 ||
      !storage.resizable() || is_shared(storage))
    return;
  Block block = state_->shared_memory(storage.nbytes());
  has_room_ = block != nullptr;
  if (!has_room_) return;
  std::byte* const memory = block.get();
  std::memcpy(memory, storage.data(), storage.nbytes());
  storage.set_data_ptr_noswap({memory, new Block(std::move(block)), &let_go, c10::kCPU});
}

}  // namespace rueda
