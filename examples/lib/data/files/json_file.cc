// SPDX-License-Identifier: Apache-2.0
// Files to strings and JSON; positions counted for error messages.
#include "examples/lib/data/files/json_file.h"

#include <fmt/format.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <vector>

#include "examples/lib/data/files/foreign_file.h"

namespace rueda::examples {
namespace {

// "FILE:LINE:COLUMN", both counted from 1, the column in characters.
std::string source_position(const std::filesystem::path& path, std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, std::min(byte, text.size()));
  const std::size_t line_begin = before.rfind('\n') + 1;  // npos + 1 = 0
  const auto lines = std::count(before.begin(), before.end(), '\n');
  const auto columns =
      std::count_if(before.begin() + static_cast<std::ptrdiff_t>(line_begin), before.end(),
                    [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; });
  return fmt::format("{}:{}:{}", path.string(), lines + 1, columns + 1);
}

void check_utf8(const std::filesystem::path& path, std::string_view text) {
  for (std::size_t position = 0; position < text.size();) {
    const std::size_t begin = position;
    UChar32 character;
    U8_NEXT(text.data(), position, text.size(), character);
    if (character < 0)
      throw std::runtime_error(fmt::format("{}: not valid UTF-8 (byte 0x{:02x}); convert the file to UTF-8",
                                           source_position(path, text, begin),
                                           static_cast<unsigned char>(text[begin])));
  }
}

// The innermost value that is open at the end of a cut text.
const char* open_at_end(std::string_view text) {
  std::vector<char> open;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char byte = text[i];
    if (in_string) {
      if (byte == '\\') ++i;
      if (byte == '"') in_string = false;
      continue;
    }
    in_string = byte == '"';
    if (byte == '{' || byte == '[') open.push_back(byte);
    if ((byte == '}' || byte == ']') && !open.empty()) open.pop_back();
  }
  if (in_string) return "a string";
  if (open.empty()) return "a value";
  return open.back() == '{' ? "an object" : "an array";
}

// nlohmann's message without its "[json.exception.…] parse error at line …:" in front.
std::string_view cause(std::string_view message) {
  const std::size_t position = message.find("parse error");
  const std::size_t colon = position == message.npos ? message.npos : message.find(": ", position);
  if (colon != message.npos) return message.substr(colon + 2);
  const std::size_t bracket = message.find("] ");
  return bracket == message.npos ? message : message.substr(bracket + 2);
}

// Why a text that cannot be read beyond `byte` is no JSON.
std::string why_malformed(std::string_view text, std::size_t byte, std::string_view message) {
  if (text.find_first_not_of(" \t\r\n") == text.npos) return "the file is empty";
  if (is_web_page(text)) return std::string(kWebPage);
  if (byte >= text.size()) return fmt::format("the file ends inside {}: it was cut", open_at_end(text));
  return std::string(cause(message));
}

}  // namespace

std::string read_text(const std::filesystem::path& path, std::size_t most_bytes) {
  const auto fail = [&path](const char* what, int error) {
    throw std::runtime_error(
        fmt::format("cannot {} {}: {}", what, path.string(), std::generic_category().message(error)));
  };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (file == nullptr) fail("open", errno);
  std::string text;
  std::size_t got = 0;
  do {
    constexpr std::size_t kBlock = 1 << 20;
    const std::size_t size = text.size();
    text.resize(size + kBlock);
    got = std::fread(text.data() + size, 1, kBlock, file.get());
    text.resize(size + got);
  } while (got > 0 && text.size() <= most_bytes);
  if (std::ferror(file.get()) != 0) fail("read", errno);
  if (text.size() > most_bytes)
    throw std::runtime_error(
        fmt::format("{} has more than {} bytes, the most that is read of it", path.string(), most_bytes));
  refuse_foreign_file(path, text);
  check_utf8(path, text);
  return text;
}

nlohmann::json read_json(const std::filesystem::path& path, std::size_t most_bytes) {
  const std::string text = read_text(path, most_bytes);
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    // error.byte counts from 1 and is the last byte read.
    const std::size_t byte = error.byte > 0 ? error.byte - 1 : 0;
    throw std::runtime_error(fmt::format("{}: malformed JSON: {}", source_position(path, text, byte),
                                         why_malformed(text, byte, error.what())));
  } catch (const nlohmann::json::exception& error) {  // a number too large
    throw std::runtime_error(fmt::format("{}: malformed JSON: {}", path.string(), cause(error.what())));
  }
}

nlohmann::json parse_json_line(std::string_view line, const std::string& source) {
  try {
    return nlohmann::json::parse(line);
  } catch (const nlohmann::json::exception& error) {
    throw std::runtime_error(fmt::format("{}: malformed JSON: {}", source, cause(error.what())));
  }
}

void refuse_lfs_pointer(const std::filesystem::path& path, std::string_view begin) {
  if (!begin.starts_with("version https://git-lfs.github.com/spec/")) return;
  throw std::runtime_error(fmt::format(
      "{} is a pointer of Git LFS, not the file itself; run `git lfs pull` in its folder", path.string()));
}

}  // namespace rueda::examples
