// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/data/files/json_node.h"

#include <fmt/format.h>

#include <stdexcept>

namespace rueda::examples {

void JsonNode::fail(std::string_view what) const {
  throw std::runtime_error(fmt::format("{}: {}: {}", *source_, path_.empty() ? "top level" : path_, what));
}

JsonNode JsonNode::member(const std::string& key) const {
  if (!value_->is_object()) fail(fmt::format("an object is needed, found {}", value_->type_name()));
  const auto found = value_->find(key);
  if (found == value_->end()) fail(fmt::format("missing \"{}\"", key));
  return {*source_, *found, path_.empty() ? key : fmt::format("{}.{}", path_, key)};
}

std::optional<JsonNode> JsonNode::find(const std::string& key) const {
  if (!value_->is_object()) fail(fmt::format("an object is needed, found {}", value_->type_name()));
  const auto found = value_->find(key);
  if (found == value_->end() || found->is_null()) return std::nullopt;
  return member(key);
}

std::size_t JsonNode::size() const {
  if (!value_->is_array()) fail(fmt::format("an array is needed, found {}", value_->type_name()));
  return value_->size();
}

JsonNode JsonNode::at(std::size_t index) const {
  return {*source_, (*value_)[index], fmt::format("{}[{}]", path_, index)};
}

std::string JsonNode::text() const {
  if (!value_->is_string()) fail(fmt::format("a string is needed, found {}", value_->type_name()));
  return value_->get<std::string>();
}

std::size_t JsonNode::position() const {
  if (!value_->is_number_unsigned()) fail(fmt::format("a non-negative integer is needed, found {}", shown()));
  return value_->get<std::size_t>();
}

bool JsonNode::boolean() const {
  if (!value_->is_boolean()) fail(fmt::format("true or false is needed, found {}", shown()));
  return value_->get<bool>();
}

std::string JsonNode::shown() const {
  return value_->is_structured() ? fmt::format("an {}", value_->type_name()) : value_->dump();
}

std::int64_t JsonNode::integer() const {
  if (!value_->is_number_integer()) fail(fmt::format("an integer is needed, found {}", shown()));
  return value_->get<std::int64_t>();
}

}  // namespace rueda::examples
