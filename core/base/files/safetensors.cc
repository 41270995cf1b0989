// SPDX-License-Identifier: Apache-2.0
// Every check of a safetensors file. Nothing is believed: lengths, offsets, dtypes and shapes come from
// outside.
#include "core/base/files/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "core/base/files/json_depth.h"
#include "core/base/files/safetensors_format.h"

namespace rueda {
namespace {

using nlohmann::json;

constexpr int kDeepest = 8;  // levels of a header; a right one has 3

constexpr std::array<std::pair<std::string_view, std::size_t>, 16> kItemSizes = {{{"F64", 8},
                                                                                  {"I64", 8},
                                                                                  {"U64", 8},
                                                                                  {"C64", 8},
                                                                                  {"F32", 4},
                                                                                  {"I32", 4},
                                                                                  {"U32", 4},
                                                                                  {"F16", 2},
                                                                                  {"BF16", 2},
                                                                                  {"I16", 2},
                                                                                  {"U16", 2},
                                                                                  {"I8", 1},
                                                                                  {"U8", 1},
                                                                                  {"BOOL", 1},
                                                                                  {"F8_E4M3", 1},
                                                                                  {"F8_E5M2", 1}}};

// Throws errors that begin with the file's name.
class Checker {
 public:
  explicit Checker(const std::string& file) : file_(file) {}

  template <typename... Arguments>
  void require(bool condition, fmt::format_string<Arguments...> format, Arguments&&... arguments) const {
    if (!condition) fail(format, std::forward<Arguments>(arguments)...);
  }

  template <typename... Arguments>
  [[noreturn]] void fail(fmt::format_string<Arguments...> format, Arguments&&... arguments) const {
    throw std::runtime_error(fmt::format("{}: not a valid safetensors file: {}", file_,
                                         fmt::format(format, std::forward<Arguments>(arguments)...)));
  }

  // Throws if `condition` is false: the file was fetched or copied in part.
  template <typename... Arguments>
  void require_whole(bool condition, fmt::format_string<Arguments...> format,
                     Arguments&&... arguments) const {
    if (condition) return;
    throw std::runtime_error(fmt::format("{} is cut short: {}; fetch or copy it again", file_,
                                         fmt::format(format, std::forward<Arguments>(arguments)...)));
  }

 private:
  const std::string& file_;
};

std::uint64_t read_length(std::span<const std::byte> bytes) {
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kSafetensorsLengthBytes; ++i)
    length |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  return length;
}

// The header as JSON. A name given twice is an error: JSON readers silently keep one of the two.
json parse_json(const Checker& check, std::string_view text) {
  std::set<std::string> names;
  const auto nesting = at_most_nested<json>(kDeepest);
  const auto callback = [&](int depth, json::parse_event_t event, json& parsed) {
    nesting(depth, event, parsed);
    if (depth == 1 && event == json::parse_event_t::key)
      check.require(names.insert(parsed.get<std::string>()).second,
                    "tensor \"{}\" stands twice in the header", parsed.get<std::string>());
    return true;
  };
  try {
    json header = json::parse(text, callback);
    check.require(header.is_object(), "the header is a JSON {}, not an object", header.type_name());
    return header;
  } catch (const json::exception& error) {
    check.fail("its header is malformed JSON: {}", error.what());
  } catch (const TooDeep& error) {
    check.fail("its header: {}", error.what());
  }
}

std::vector<std::int64_t> read_shape(const Checker& check, const std::string& name, const json& tensor) {
  const auto found = tensor.find("shape");
  check.require(found != tensor.end() && found->is_array(), "tensor \"{}\" has no array \"shape\"", name);
  std::vector<std::int64_t> shape;
  for (const json& dimension : *found) {
    const bool fits =
        dimension.is_number_unsigned() &&
        dimension.get<std::uint64_t>() <= std::uint64_t{std::numeric_limits<std::int64_t>::max()};
    if (!fits) {
      check.fail("tensor \"{}\" has the dimension {}; a non-negative integer is needed", name,
                 dimension.dump());
    }
    shape.push_back(dimension.get<std::int64_t>());
  }
  return shape;
}

// A tensor whose data would end behind the file.
struct CutTensor {
  std::string name;
  std::uint64_t end;
};

// One that is cut has no data, and is added to `cut` by its beginning.
SafetensorEntry read_entry(const Checker& check, const std::string& name, const json& tensor,
                           std::span<const std::byte> data, std::map<std::uint64_t, CutTensor>& cut) {
  check.require(tensor.is_object(), "tensor \"{}\" is described by a JSON {}, not an object", name,
                tensor.type_name());
  const auto dtype = tensor.find("dtype");
  check.require(dtype != tensor.end() && dtype->is_string(), "tensor \"{}\" has no string \"dtype\"", name);
  SafetensorEntry entry{name, dtype->get<std::string>(), read_shape(check, name, tensor), {}};
  const std::size_t item_size = safetensors_item_size(entry.dtype);
  check.require(item_size > 0, "tensor \"{}\" has the unknown dtype \"{}\"", name, entry.dtype);
  const auto wanted = safetensors_byte_size(entry.shape, item_size);
  check.require(wanted.has_value(), "the size of tensor \"{}\" with shape [{}] overflows", name,
                fmt::join(entry.shape, ", "));
  const auto offsets = tensor.find("data_offsets");
  check.require(offsets != tensor.end() && offsets->is_array() && offsets->size() == 2 &&
                    (*offsets)[0].is_number_unsigned() && (*offsets)[1].is_number_unsigned(),
                "tensor \"{}\" has no \"data_offsets\" of two non-negative integers", name);
  const auto begin = (*offsets)[0].get<std::uint64_t>();
  const auto end = (*offsets)[1].get<std::uint64_t>();
  check.require(begin <= end, "tensor \"{}\" ends at byte {}, before its beginning at {}", name, end, begin);
  check.require(end - begin == *wanted,
                "tensor \"{}\" of dtype {} and shape [{}] needs {} bytes, its data_offsets span {}", name,
                entry.dtype, fmt::join(entry.shape, ", "), *wanted, end - begin);
  if (end > data.size())
    cut.emplace(begin, CutTensor{name, end});
  else
    entry.data = data.subspan(begin, end - begin);
  return entry;
}

void read_metadata(const Checker& check, const json& metadata, std::map<std::string, std::string>& result) {
  check.require(metadata.is_object(), "__metadata__ is a JSON {}, not an object", metadata.type_name());
  for (const auto& [key, value] : metadata.items()) {
    check.require(value.is_string(), "__metadata__ \"{}\" is a JSON {}, not a string", key,
                  value.type_name());
    result[key] = value.get<std::string>();
  }
}

// The tensors must cover the data from its first byte to its last, one after the other.
void check_cover(const Checker& check, std::span<const SafetensorEntry> entries,
                 std::span<const std::byte> data) {
  const std::byte* next = data.data();
  for (const SafetensorEntry& entry : entries) {
    const auto begin = entry.data.data() - data.data();
    check.require(entry.data.data() >= next,
                  "tensor \"{}\" begins at byte {}, inside the tensor before it, which ends at {}",
                  entry.name, begin, next - data.data());
    check.require(entry.data.data() == next, "bytes {} to {}, before tensor \"{}\", belong to no tensor",
                  next - data.data(), begin, entry.name);
    next += entry.data.size();
  }
  const auto used = static_cast<std::size_t>(next - data.data());
  check.require(used == data.size(), "its tensors need {} bytes of data, the file has {}", used, data.size());
}

}  // namespace

std::size_t safetensors_item_size(std::string_view dtype) {
  const auto* found = std::find_if(kItemSizes.begin(), kItemSizes.end(),
                                   [&](const auto& known) { return known.first == dtype; });
  return found == kItemSizes.end() ? 0 : found->second;
}

std::optional<std::size_t> safetensors_byte_size(std::span<const std::int64_t> shape, std::size_t item_size) {
  std::size_t size = item_size;
  for (const std::int64_t dimension : shape) {
    if (dimension < 0 || __builtin_mul_overflow(size, static_cast<std::size_t>(dimension), &size))
      return std::nullopt;
  }
  return size;
}

Safetensors parse_safetensors(const std::string& file, std::span<const std::byte> bytes) {
  const Checker check(file);
  check.require_whole(bytes.size() >= kSafetensorsLengthBytes, "it has {} bytes, at least {} are needed",
                      bytes.size(), kSafetensorsLengthBytes);
  const std::uint64_t length = read_length(bytes);
  check.require(length <= kMostSafetensorsHeaderBytes,
                "its header would have {} bytes, at most {} are allowed", length,
                kMostSafetensorsHeaderBytes);
  check.require_whole(length <= bytes.size() - kSafetensorsLengthBytes,
                      "header and its length need {} bytes, the file has {}",
                      length + kSafetensorsLengthBytes, bytes.size());
  const auto header_bytes = bytes.subspan(kSafetensorsLengthBytes, length);
  const auto data = bytes.subspan(kSafetensorsLengthBytes + length);
  const json header =
      parse_json(check, {reinterpret_cast<const char*>(header_bytes.data()), header_bytes.size()});

  Safetensors result;
  std::map<std::uint64_t, CutTensor> cut;
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__")
      read_metadata(check, value, result.metadata);
    else
      result.entries.push_back(read_entry(check, name, value, data, cut));
  }
  if (!cut.empty()) {
    const CutTensor& tensor = cut.begin()->second;
    check.require_whole(false, "it ends inside tensor \"{}\", which needs {} bytes of data, the file has {}",
                        tensor.name, tensor.end, data.size());
  }
  std::sort(result.entries.begin(), result.entries.end(),
            [](const SafetensorEntry& a, const SafetensorEntry& b) {
              return std::pair(a.data.data(), a.data.size()) < std::pair(b.data.data(), b.data.size());
            });
  check_cover(check, result.entries, data);
  return result;
}

}  // namespace rueda
