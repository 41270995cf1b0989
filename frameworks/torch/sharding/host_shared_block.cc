// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/sharding/host_shared_block.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/log.h"
#include "rueda/rueda.h"

namespace rueda {

// Rank 0 makes one block for all; if one rank cannot open it, nobody uses it.
std::shared_ptr<std::byte> share_one_block(const std::string& name, const std::string& subject,
                                           std::size_t bytes, Runtime& runtime) {
  const Topology& topology = runtime.topology();
  if (topology.local_size != topology.size || topology.size == 1) return nullptr;
  SymmetricMemory* memory = runtime.tensor_memory().get();
  std::shared_ptr<std::byte> block;
  std::string handle;
  if (topology.rank == 0 && memory != nullptr) {
    try {
      SymmetricMemory::Block made = memory->share(bytes);
      block = std::move(made.memory);
      handle = std::move(made.handle);
    } catch (const Error& error) {
      log(LogLevel::warning, "rank 0: each rank has its own copy of {}. {}", subject, error.what());
    }
  }
  const ConstTensorView own(handle.data(), DataType::uint8, {static_cast<std::int64_t>(handle.size())});
  Handle gathered = allgather_async(name + ".handle", own, runtime);
  gathered.wait();
  if (topology.rank != 0 && memory != nullptr) {
    const TensorView& all = gathered.output();
    block = memory->open(std::string(static_cast<const char*>(all.data), all.bytes()));
  }
  std::vector<std::uint8_t> opened{static_cast<std::uint8_t>(block ? 1 : 0)};
  allreduce_async(name + ".opened", view(opened), view(opened), {ReduceOp::min}, runtime).wait();
  return opened.front() == 1 ? block : nullptr;
}

}  // namespace rueda
