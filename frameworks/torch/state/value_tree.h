// SPDX-License-Identifier: Apache-2.0
// Values and trees of values under names, as archives nest, and the file that holds them.
#pragma once

#include <ATen/core/ivalue.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rueda/torch/state/archive.h"

namespace rueda {

// Purpose: the contents of an archive, without LibTorch's archive around it, which writes a program and adds
// up checksums of all bytes. A value; its tensors are shared.
struct ValueTree {
  struct Node {
    c10::IValue value;                      // unless there is a tree
    std::shared_ptr<const ValueTree> tree;  // null: a value
  };

  void add(const std::string& key, c10::IValue value);
  void add(const std::string& key, ValueTree tree);
  // Null if there is none, or one of the other kind.
  const c10::IValue* value(const std::string& key) const;
  const ValueTree* tree(const std::string& key) const;

  std::vector<std::pair<std::string, Node>> nodes;  // in the order in which they were added

 private:
  const Node* find(const std::string& key) const;
};

ValueTree tree_of(torch::serialize::InputArchive& archive);
void write(torch::serialize::OutputArchive& archive, const ValueTree& tree);

// The tree as a safetensors file (to_bytes() of an archive), and back. Both throw InvalidArgument for a value
// that is no data. The second runs no code, and believes nothing: the bytes may come from anywhere.
std::string to_bytes(const ValueTree& tree);
ValueTree value_tree_of(const std::string& bytes);

}  // namespace rueda
