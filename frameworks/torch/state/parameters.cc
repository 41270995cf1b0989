// SPDX-License-Identifier: Apache-2.0
#include "rueda/torch/state/parameters.h"

#include <fmt/format.h>
#include <torch/csrc/api/include/torch/ordered_dict.h>
#include <torch/nn/module.h>

#include <unordered_map>

#include "core/engine/runtime.h"
#include "frameworks/torch/collectives/agreement.h"
#include "frameworks/torch/collectives/tensor_adapter.h"
#include "rueda/torch/collectives/operations.h"

namespace rueda {
namespace {

// The action of broadcast_parameters for one tensor, in words that all ranks must agree on.
struct Part {
  std::string line;
  bool moves = false;  // not for a buffer that is undefined, and a tied weight only once
};

std::vector<Part> parts_of(const std::vector<std::pair<std::string, at::Tensor>>& named) {
  std::unordered_map<const void*, std::string> seen;
  std::vector<Part> parts;
  for (const auto& [name, tensor] : named) {
    if (!tensor.defined()) {
      parts.push_back({fmt::format("'{}' undefined", name)});
    } else if (auto [first, added] = seen.try_emplace(tensor.unsafeGetTensorImpl(), name); !added) {
      parts.push_back({fmt::format("'{}' the same as '{}'", name, first->second)});
    } else {
      check_can_be_written(tensor, name);
      const DataType dtype = data_type_for(tensor.scalar_type(), name);
      parts.push_back({fmt::format("'{}' {} {}", name, to_string(dtype), to_string(tensor.sizes())), true});
    }
  }
  return parts;
}

}  // namespace

void broadcast_parameters(const std::vector<std::pair<std::string, at::Tensor>>& named, Rank root,
                          const Scope& scope) {
  check_members(root, scope, "broadcast_parameters");
  const std::vector<Part> parts = parts_of(named);
  std::vector<std::string> lines;
  for (const Part& part : parts) lines.push_back(part.line);
  const std::string prefix = scope.runtime().next_name("broadcast_parameters", scope.process_set());
  check_agreement(prefix, "broadcast_parameters", lines, scope);
  std::vector<TensorHandle> handles;
  for (std::size_t i = 0; i < named.size(); ++i) {
    if (!parts[i].moves) continue;
    const std::string name =
        fmt::format("{}.{}.{}", prefix, i, named[i].first);  // by number too: names may repeat
    handles.push_back(broadcast_async_(named[i].second, root, name, scope));
  }
  for (const TensorHandle& handle : handles) handle.wait();
}

void broadcast_parameters(const torch::OrderedDict<std::string, at::Tensor>& named, Rank root,
                          const Scope& scope) {
  broadcast_parameters(named.pairs(), root, scope);
}

void broadcast_parameters(const torch::nn::Module& model, Rank root, const Scope& scope) {
  auto named = model.named_parameters();
  named.update(model.named_buffers());
  broadcast_parameters(named, root, scope);
}

}  // namespace rueda
