// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/data/files/bad_items.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

namespace rueda::examples {
namespace {

constexpr std::size_t kTold = 10;

std::string items(std::size_t count) { return fmt::format("{} bad item{}", count, count == 1 ? "" : "s"); }

// Ends a line after which the items are told.
std::string colon(std::size_t count) { return count > kTold ? fmt::format("; the first {}:", kTold) : ":"; }

}  // namespace

void BadItems::add(std::string what) {
  ++count_;
  if (first_.size() < kTold) first_.push_back(std::move(what));
}

std::vector<std::string> BadItems::words(const std::string& file) const {
  if (count_ == 0) return {};
  std::vector<std::string> lines{fmt::format("{}: {} left out{}", file, items(count_), colon(count_))};
  for (const std::string& what : first_) lines.push_back("  " + what);
  return lines;
}

void BadItems::refuse_any(const std::string& file) const {
  if (count_ == 0) return;
  if (count_ == 1) {
    throw std::runtime_error(
        fmt::format("{}; correct it, or leave it out with --bad-items skip", first_.front()));
  }
  throw std::runtime_error(
      fmt::format("{}: {}{}\n  {}\ncorrect them, or leave them out with --bad-items skip", file,
                  items(count_), colon(count_), fmt::join(first_, "\n  ")));
}

void BadItems::refuse_all(const std::string& file) const {
  if (count_ == 0) return;
  const std::string all = count_ == 1 ? "its only item is" : fmt::format("all {} items are", count_);
  throw std::runtime_error(fmt::format("{}: {} bad, and nothing is left{}\n  {}", file, all, colon(count_),
                                       fmt::join(first_, "\n  ")));
}

// The texts contain file names, which need not be UTF-8.
std::vector<std::int32_t> BadItems::to_record() const {
  const std::string text = nlohmann::json{{"count", count_}, {"first", first_}}.dump(
      -1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::vector<std::int32_t> record(1 + (text.size() + sizeof(std::int32_t) - 1) / sizeof(std::int32_t));
  record[0] = static_cast<std::int32_t>(text.size());
  std::memcpy(record.data() + 1, text.data(), text.size());
  return record;
}

BadItems BadItems::from_record(std::span<const std::int32_t> record) {
  const std::string text(reinterpret_cast<const char*>(record.data() + 1),
                         static_cast<std::size_t>(record.front()));
  const auto json = nlohmann::json::parse(text);
  BadItems bad;
  bad.count_ = json.at("count");
  bad.first_ = json.at("first").get<std::vector<std::string>>();
  return bad;
}

}  // namespace rueda::examples
