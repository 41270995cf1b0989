// SPDX-License-Identifier: Apache-2.0
// Rueda for LibTorch programs that use c10d: DistributedDataParallel's Reducer, collectives of their own.
//
//   auto store = c10::make_intrusive<c10d::TCPStore>("node7", options);
//   auto group = c10::make_intrusive<c10d::ProcessGroup>(store, rank, size);
//   group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::CUSTOM,
//                     rueda::process_group(store, rank, size));
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace rueda {

// The backend of a group of `size` ranks, for tensors of the host and, in a Rueda with CUDA, of devices
// (setBackend for c10::DeviceType::CUDA, too). Its ranks are a job of their own. They
// find one another by `store`. The keys of `store` belong to this group alone (c10d::PrefixStore). Returns
// when all ranks have called it. `timeout`: for that, and for each operation. `name`: of the group, for
// messages. Throws c10::DistBackendError when a rank does not come in time, as do operations that fail.
c10::intrusive_ptr<c10d::Backend> process_group(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                                int size,
                                                std::chrono::milliseconds timeout = kBackendDefaultTimeout,
                                                const std::string& name = "0");

}  // namespace rueda
