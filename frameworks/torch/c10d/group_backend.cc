// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/c10d/group_backend.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>

#include "core/base/error.h"

namespace rueda {
namespace {

std::unique_ptr<Runtime> start_runtime(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                       const GroupNames& names, std::chrono::milliseconds timeout,
                                       const StartGroup& start) {
  try {
    return start({.store = std::make_shared<GroupStore>(store, names.group),
                  .rank = rank,
                  .size = size,
                  .start_timeout = timeout,
                  .unwanted = {},
                  .name = fmt::format("group {}", names.group),
                  .ranks = {names.ranks.begin(), names.ranks.end()}});
  } catch (const Error& error) {
    C10_THROW_ERROR(DistBackendError,
                    fmt::format("rueda: the group '{}' does not begin: {}", names.group, error.what()));
  }
}

}  // namespace

GroupBackend::GroupBackend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, GroupNames names,
                           std::chrono::milliseconds timeout, const StartGroup& start)
    : Backend(rank, size),
      operations_(start_runtime(store, rank, size, names, timeout, start), store, rank, size, names, timeout,
                  start),
      store_(store) {
  init();
}

c10::intrusive_ptr<GroupBackend::Options> GroupBackend::getBackendOptions() {
  auto options = c10::make_intrusive<Options>(operations_.names().backend, operations_.timeout());
  options->group_name = operations_.names().group;
  return options;
}

c10d::ErrorType GroupBackend::getError() {
  return operations_.failure().ok() ? c10d::ErrorType::SUCCESS : c10d::ErrorType::COMM_ERROR;
}

GroupBackend::Works GroupBackend::endCoalescing() {
  GroupCall call = operations_.call(c10d::OpType::COALESCED);
  return operations_.end_coalescing(std::move(call));
}

std::vector<std::uint64_t> GroupBackend::ranks_of_job(const std::vector<int>& ranks) const {
  std::vector<std::uint64_t> result;
  for (const int rank : ranks) result.push_back(operations_.names().ranks.at(static_cast<std::size_t>(rank)));
  return result;
}

c10::intrusive_ptr<c10d::Backend> GroupBackend::split(const c10::intrusive_ptr<c10d::Store>& store,
                                                      const std::vector<int>& ranks,
                                                      const c10::intrusive_ptr<Options>& options) {
  const auto own = std::ranges::find(ranks, rank_);
  if (own == ranks.end()) return nullptr;
  GroupNames names = operations_.names();
  if (options && !options->group_name.empty()) names.group = options->group_name;
  names.ranks = ranks_of_job(ranks);
  return make_process_group(store, static_cast<int>(own - ranks.begin()), static_cast<int>(ranks.size()),
                            std::move(names), options ? options->timeout : operations_.timeout());
}

c10::intrusive_ptr<c10d::Backend> GroupBackend::shrink(const std::vector<std::int64_t>& excluded, int flags,
                                                       const c10::intrusive_ptr<Options>& options) {
  constexpr int kShrinkAbort = 1;  // of c10d's
  TORCH_CHECK_VALUE(std::ranges::find(excluded, rank_) == excluded.end(), "rueda: rank ", rank_,
                    " is to be excluded from its group, so it cannot shrink it");
  if (flags & kShrinkAbort) abort();
  const auto before = std::ranges::count_if(excluded, [&](std::int64_t rank) { return rank < rank_; });
  const std::string left = fmt::format("shrunk/{}/without/{}/", ++shrinks_, fmt::join(excluded, ","));
  std::vector<int> staying;
  for (int rank = 0; rank < size_; ++rank)
    if (std::ranges::find(excluded, rank) == excluded.end()) staying.push_back(rank);
  GroupNames names = operations_.names();
  names.ranks = ranks_of_job(staying);
  return make_process_group(c10::make_intrusive<c10d::PrefixStore>(left, store_),
                            rank_ - static_cast<int>(before), size_ - static_cast<int>(excluded.size()),
                            std::move(names), options ? options->timeout : operations_.timeout());
}

void GroupBackend::registerOnCompletionHook(CompletionHook::Function&& hook) {
  operations_.set_completion_hook(hook);
  onCompletionHook_ = std::move(hook);  // for hasHooks()
}

at::Tensor GroupBackend::allocateTensor(long elements, at::TensorOptions options) {
  TORCH_CHECK_VALUE(options.device().is_cpu(), "rueda: tensors are allocated on the host, not on ",
                    options.device());
  return operations_.allocate(pool_, elements, c10::typeMetaToScalarType(options.dtype()));
}

}  // namespace rueda
