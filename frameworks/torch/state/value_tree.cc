// SPDX-License-Identifier: Apache-2.0
// The tree of a file is JSON in its metadata. An object is a tree. An array is a value, with its kind first:
// ["int", 3], ["tensor", "name in the file", {its properties}].
#include "frameworks/torch/state/value_tree.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/serialize/archive.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string_view>

#include "core/base/error.h"
#include "core/base/files/json_depth.h"
#include "core/base/files/safetensors.h"
#include "frameworks/torch/state/stored_tensor.h"

namespace rueda {
namespace {

using Json = nlohmann::ordered_json;
using torch::serialize::InputArchive;
using torch::serialize::OutputArchive;

constexpr const char* kTree = "rueda.values";
constexpr int kDeepest = 128;  // levels of the tree

// LibTorch writes keys into the text of a program, without quoting them.
void check_archive_key(const std::string& key) {
  const auto is_plain = [](char each) {
    return static_cast<unsigned char>(each) >= ' ' && each != 127 && each != '"' && each != '\'' &&
           each != '\\';
  };
  if (std::ranges::all_of(key, is_plain)) return;
  std::string shown = key;
  std::ranges::replace_if(shown, std::not_fn(is_plain), '?');
  refuse(
      fmt::format("the name '{}' of a saved value has quotes, a backslash or a control character; choose "
                  "another name",
                  shown));
}

Json json_of(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

double real_of(const Json& json) {
  if (!json.is_string()) return json.get<double>();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (json == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (json == "inf" || json == "-inf") return json == "inf" ? kInfinity : -kInfinity;
  refuse(fmt::format("'{}' is no number", json.get<std::string>()));
}

// Purpose: turns a tree of values into the JSON and the tensors of a file. Used once.
class TreeWriter {
 public:
  Json json_of_tree(const ValueTree& tree, const std::string& prefix, int level) {
    check_level(level, prefix);
    Json json = Json::object();
    for (const auto& [key, node] : tree.nodes) {
      check_archive_key(key);
      json[key] = node.tree ? json_of_tree(*node.tree, prefix + key + ".", level + 1)
                            : node_of(node.value, prefix + key, level);
    }
    return json;
  }

  std::string bytes(const Json& tree) const {
    std::string text;
    try {
      text = tree.dump();
    } catch (const Json::exception&) {
      refuse("a name or a text in what is saved is not UTF-8");
    }
    std::vector<SafetensorEntry> entries;
    for (const auto& [name, tensor] : tensors_) entries.push_back(stored_entry(name, tensor));
    std::string all;
    format_safetensors("the file", entries, {{"format", "pt"}, {kTree, text}},
                       [&](std::span<const std::byte> piece) {
                         all.append(reinterpret_cast<const char*>(piece.data()), piece.size());
                       });
    return all;
  }

 private:
  // An archive is one level of the tree, and a tuple two.
  static void check_level(int level, const std::string& path) {
    constexpr int kMost = kDeepest / 2 - 2;
    if (level > kMost) refuse(fmt::format("what lies around '{}' is nested more than {} deep", path, kMost));
  }

  Json node_of(const c10::IValue& value, const std::string& path, int level) {
    if (value.isNone()) return {"none"};
    if (value.isTensor()) return tensor_node(value.toTensor(), path);
    if (value.isInt()) return {"int", value.toInt()};
    if (value.isBool()) return {"bool", value.toBool()};
    if (value.isDouble()) return {"real", json_of(value.toDouble())};
    if (value.isString()) return {"text", value.toStringRef()};
    if (value.isTuple()) return many("tuple", value.toTupleRef().elements().vec(), path, level + 1);
    if (value.isIntList()) return many("ints", value.toListRef().vec(), path, level + 1);
    if (value.isDoubleList()) return many("reals", value.toListRef().vec(), path, level + 1);
    if (value.isBoolList()) return many("bools", value.toListRef().vec(), path, level + 1);
    if (value.isTensorList()) return many("tensors", value.toListRef().vec(), path, level + 1);
    refuse(
        fmt::format("'{}' is of type {}, which is not saved; save numbers, texts, tensors, and tuples or "
                    "lists of these",
                    path, value.type()->str()));
  }

  Json many(const char* kind, const std::vector<c10::IValue>& values, const std::string& path, int level) {
    check_level(level, path);
    Json nodes = Json::array();
    for (std::size_t i = 0; i < values.size(); ++i)
      nodes.push_back(node_of(values[i], fmt::format("{}.{}", path, i), level));
    return {kind, std::move(nodes)};
  }

  Json tensor_node(const at::Tensor& tensor, const std::string& path) {
    if (!tensor.defined()) return {"tensor", nullptr};
    const bool is_double_complex = tensor.scalar_type() == at::kComplexDouble;
    if (tensor.layout() != at::kStrided ||
        (stored_name(tensor.scalar_type()).empty() && !is_double_complex)) {
      refuse(
          fmt::format("the tensor '{}' has layout {} and type {}, which a safetensors file cannot hold; "
                      "save a dense tensor of plain numbers",
                      path, c10::str(tensor.layout()), c10::toString(tensor.scalar_type())));
    }
    Json properties = Json::object();
    if (tensor.requires_grad()) properties["grad"] = true;
    if (is_double_complex) properties["complex"] = true;
    at::Tensor kept = tensor.detach().resolve_conj().resolve_neg().cpu();
    if (kept.is_non_overlapping_and_dense() && !kept.is_contiguous())
      properties["strides"] = kept.strides().vec();
    if (is_double_complex) kept = at::view_as_real(kept);
    std::string name = path;
    while (!names_.insert(name).second) name += "_";
    tensors_.emplace_back(name, kept.contiguous());
    return {"tensor", std::move(name), std::move(properties)};
  }

  std::vector<std::pair<std::string, at::Tensor>> tensors_;
  std::set<std::string> names_;
};

// Purpose: turns the JSON and the tensors of a file into a tree of values. Believes nothing. Used once.
class TreeReader {
 public:
  explicit TreeReader(const Safetensors& file) {
    for (const SafetensorEntry& entry : file.entries) entries_.emplace(entry.name, &entry);
  }

  ValueTree tree_of(const Json& json) const {
    ValueTree tree;
    for (const auto& [key, node] : json.items()) {
      check_archive_key(key);
      if (node.is_object())
        tree.add(key, tree_of(node));
      else
        tree.add(key, value_of(node));
    }
    return tree;
  }

 private:
  c10::IValue value_of(const Json& node) const {
    const std::string& kind = node.at(0).get_ref<const std::string&>();
    if (kind == "none") return {};
    const Json& content = node.at(1);
    if (kind == "tensor") return content.is_null() ? at::Tensor() : tensor(content, node.at(2));
    if (kind == "int") return content.get<std::int64_t>();
    if (kind == "bool") return content.get<bool>();
    if (kind == "real") return real_of(content);
    if (kind == "text") return content.get<std::string>();
    if (kind == "tuple") return c10::ivalue::Tuple::create(values_of(content));
    if (kind == "ints") return list_of<std::int64_t>(content);
    if (kind == "reals") return list_of<double>(content);
    if (kind == "bools") return list_of<bool>(content);
    if (kind == "tensors") return list_of<at::Tensor>(content);
    refuse(fmt::format("this version knows no values of kind '{}'", kind));
  }

  std::vector<c10::IValue> values_of(const Json& nodes) const {
    std::vector<c10::IValue> values;
    for (const Json& node : nodes) values.push_back(value_of(node));
    return values;
  }

  template <class Element>
  c10::List<Element> list_of(const Json& nodes) const {
    c10::List<Element> list;
    for (const Json& node : nodes) list.push_back(value_of(node).to<Element>());
    return list;
  }

  at::Tensor tensor(const Json& name, const Json& properties) const {
    const auto found = entries_.find(name.get<std::string>());
    if (found == entries_.end()) refuse(fmt::format("the tensor '{}' is missing", name.get<std::string>()));
    at::Tensor tensor = tensor_of(*found->second);
    if (properties.contains("complex")) tensor = at::view_as_complex(tensor);
    if (properties.contains("strides")) {
      const auto strides = properties["strides"].get<std::vector<std::int64_t>>();
      const auto options = tensor.options();
      if (!at::empty_strided(tensor.sizes(), strides, options.device(at::kMeta))
               .is_non_overlapping_and_dense())
        refuse(fmt::format("the strides of the tensor '{}' leave gaps", found->first));
      tensor = at::empty_strided(tensor.sizes(), strides, options).copy_(tensor);
    }
    return properties.contains("grad") ? tensor.requires_grad_() : tensor;
  }

  std::map<std::string, const SafetensorEntry*> entries_;
};

}  // namespace

void ValueTree::add(const std::string& key, c10::IValue value) {
  nodes.emplace_back(key, Node{std::move(value), nullptr});
}

void ValueTree::add(const std::string& key, ValueTree tree) {
  nodes.emplace_back(key, Node{{}, std::make_shared<const ValueTree>(std::move(tree))});
}

const ValueTree::Node* ValueTree::find(const std::string& key) const {
  const auto found = std::ranges::find(nodes, key, &std::pair<std::string, Node>::first);
  return found == nodes.end() ? nullptr : &found->second;
}

const c10::IValue* ValueTree::value(const std::string& key) const {
  const Node* const node = find(key);
  return node == nullptr || node->tree ? nullptr : &node->value;
}

const ValueTree* ValueTree::tree(const std::string& key) const {
  const Node* const node = find(key);
  return node == nullptr ? nullptr : node->tree.get();
}

ValueTree tree_of(InputArchive& archive) {
  ValueTree tree;
  for (const std::string& key : archive.keys()) {
    c10::IValue value;
    archive.read(key, value);
    if (value.isModule()) {
      InputArchive nested;
      archive.read(key, nested);
      tree.add(key, tree_of(nested));
    } else {
      tree.add(key, std::move(value));
    }
  }
  return tree;
}

void write(OutputArchive& archive, const ValueTree& tree) {
  for (const auto& [key, node] : tree.nodes) {
    if (node.tree) {
      OutputArchive nested(archive.compilation_unit());
      write(nested, *node.tree);
      archive.write(key, nested);
    } else if (node.value.isTensor()) {
      archive.write(key, node.value.toTensor(), /*is_buffer=*/true);
    } else {
      archive.write(key, node.value);
    }
  }
}

std::string to_bytes(const ValueTree& tree) {
  TreeWriter writer;
  const Json json = writer.json_of_tree(tree, "", 0);
  return writer.bytes(json);
}

ValueTree value_tree_of(const std::string& bytes) {
  const Safetensors file = parse_safetensors("the file", std::as_bytes(std::span(bytes)));
  const auto tree = file.metadata.find(kTree);
  if (tree == file.metadata.end())
    refuse(fmt::format("this safetensors file has no '{}' in its metadata, so rueda::save has not written it",
                       kTree));
  try {
    const Json json = Json::parse(tree->second, at_most_nested<Json>(kDeepest));
    if (!json.is_object()) refuse(fmt::format("'{}' in its metadata is no JSON object", kTree));
    return TreeReader(file).tree_of(json);
  } catch (const Json::exception& error) {
    refuse(fmt::format("'{}' in its metadata is damaged: {}", kTree, error.what()));
  } catch (const TooDeep& error) {
    refuse(fmt::format("'{}' in its metadata: {}", kTree, error.what()));
  } catch (const c10::Error& error) {
    refuse(fmt::format("'{}' in its metadata is damaged: {}", kTree, error.what_without_backtrace()));
  }
}

}  // namespace rueda
