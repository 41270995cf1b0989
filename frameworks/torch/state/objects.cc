// SPDX-License-Identifier: Apache-2.0
#include "rueda/torch/state/objects.h"

#include <fmt/format.h>

#include <utility>

#include "core/base/error.h"
#include "core/byte_exchange.h"
#include "core/engine/runtime.h"
#include "frameworks/torch/collectives/agreement.h"

namespace rueda {
namespace {

constexpr char kMade = '\0', kFailed = '\1';  // the last byte of the message

std::string next_name(const std::string& prefix, const Scope& scope) {
  return scope.runtime().next_name(prefix, scope.process_set());
}

}  // namespace

std::string broadcast_made(const std::function<std::string()>& make, Rank root, const std::string& name,
                           const std::string& subject, const Scope& scope) {
  std::string bytes;
  if (scope.runtime().topology().rank == root) {
    const std::string failure = failure_of([&] { bytes = make(); });
    if (!failure.empty()) bytes = failure;
    bytes.push_back(failure.empty() ? kMade : kFailed);
  }
  broadcast_bytes(bytes, root, name, scope);
  const char outcome = bytes.back();
  bytes.pop_back();
  if (outcome == kFailed) refuse(fmt::format("{}: rank {}: {}", subject, root, bytes));
  return bytes;
}

void all_use(const std::function<void()>& use, const std::string& name, const std::string& subject,
             const Scope& scope) {
  const std::string failures = failures_of_all(name, failure_of(use), scope);
  if (!failures.empty()) refuse(fmt::format("{}: {}", subject, failures));
}

void broadcast_object(std::string& bytes, Rank root, const Scope& scope) {
  check_members(root, scope, "broadcast_object");
  broadcast_bytes(bytes, root, next_name("broadcast_object", scope), scope);
}

void broadcast_object(const Stateful& thing, Rank root, const Scope& scope) {
  broadcast_state(thing, root, "broadcast_object", scope);
}

void broadcast_state(const Stateful& thing, Rank root, const std::string& subject, const Scope& scope) {
  check_members(root, scope, subject);
  const std::string name = next_name(subject, scope);
  check_agreement(name, subject, {thing.describe()}, scope);
  const std::string bytes = broadcast_made([&] { return to_bytes(thing); }, root, name, subject, scope);
  const bool is_root = scope.runtime().topology().rank == root;
  all_use(
      [&] {
        if (!is_root) from_bytes(bytes, thing);
      },
      name + ".use", subject, scope);
}

std::vector<std::string> allgather_object(const std::string& bytes, const Scope& scope) {
  check_members(scope.rank_at(0), scope, "allgather_object");
  return allgather_bytes(bytes, next_name("allgather_object", scope), scope);
}

std::vector<at::Tensor> allgather_object(const at::Tensor& tensor, const Scope& scope) {
  check_members(scope.rank_at(0), scope, "allgather_object");
  const std::string name = next_name("allgather_object", scope);
  at::Tensor mine = tensor;
  std::string bytes;
  all_use([&] { bytes = to_bytes(mine); }, name, "allgather_object", scope);
  std::vector<at::Tensor> tensors;
  for (const std::string& each : allgather_bytes(bytes, name, scope)) {
    at::Tensor loaded;
    from_bytes(each, loaded);
    tensors.push_back(loaded.detach());
  }
  return tensors;
}

}  // namespace rueda
