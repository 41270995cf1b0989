// SPDX-License-Identifier: Apache-2.0
// Walking through JSON with a check of every step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace rueda::examples {

// A JSON value together with its path, so that errors can say where they are: "FILE: data[0].title: ...".
// Refers to the document and the name of the file, which must outlive it; a plain value of one thread.
class JsonNode {
 public:
  // The top level. `source` is the file, or the file and the line.
  JsonNode(const std::string& source, const nlohmann::json& document) : JsonNode(source, document, "") {}

  // All of these throw std::runtime_error, naming source and path, if the value is not of the requested kind.
  [[noreturn]] void fail(std::string_view what) const;
  JsonNode member(const std::string& key) const;
  std::optional<JsonNode> find(const std::string& key) const;  // a member, unless it is missing or null
  std::size_t size() const;                                    // of an array
  JsonNode at(std::size_t index) const;                        // below size()
  std::string text() const;
  std::size_t position() const;  // a number from 0
  std::int64_t integer() const;
  bool boolean() const;

  const nlohmann::json& value() const { return *value_; }
  // The same value, said to be of another source, which must outlive it.
  JsonNode with_source(const std::string& source) const { return {source, *value_, path_}; }
  // The value as a message shows it: lists and objects by their kind alone.
  std::string shown() const;

 private:
  JsonNode(const std::string& source, const nlohmann::json& value, std::string path)
      : source_(&source), value_(&value), path_(std::move(path)) {}

  const std::string* source_;
  const nlohmann::json* value_;
  std::string path_;
};

}  // namespace rueda::examples
