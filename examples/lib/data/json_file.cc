// SPDX-License-Identifier: Apache-2.0
// Files to strings and JSON; positions counted for error messages.
#include "examples/lib/data/json_file.h"

#include <fmt/format.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <system_error>

namespace rueda::examples {
namespace {

// "FILE:LINE:COLUMN", both counted from 1, the column in characters.
std::string place(const std::filesystem::path& path, std::string_view text, std::size_t byte) {
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
                                           place(path, text, begin),
                                           static_cast<unsigned char>(text[begin])));
  }
}

// nlohmann's message without its "[json.exception.…] parse error at line …:" in front.
std::string_view cause(std::string_view message) {
  const std::size_t position = message.find("parse error");
  const std::size_t colon = position == message.npos ? message.npos : message.find(": ", position);
  if (colon != message.npos) return message.substr(colon + 2);
  const std::size_t bracket = message.find("] ");
  return bracket == message.npos ? message : message.substr(bracket + 2);
}

}  // namespace

std::string read_text(const std::filesystem::path& path) {
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
  } while (got > 0);
  if (std::ferror(file.get()) != 0) fail("read", errno);
  check_utf8(path, text);
  return text;
}

nlohmann::json read_json(const std::filesystem::path& path) {
  const std::string text = read_text(path);
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    // error.byte counts from 1 and is the last byte read.
    const std::size_t byte = error.byte > 0 ? error.byte - 1 : 0;
    throw std::runtime_error(
        fmt::format("{}: malformed JSON: {}", place(path, text, byte), cause(error.what())));
  } catch (const nlohmann::json::exception& error) {  // a number too large
    throw std::runtime_error(fmt::format("{}: malformed JSON: {}", path.string(), cause(error.what())));
  }
}

nlohmann::json parse_json_line(std::string_view line, const std::string& place) {
  try {
    return nlohmann::json::parse(line);
  } catch (const nlohmann::json::exception& error) {
    throw std::runtime_error(fmt::format("{}: malformed JSON: {}", place, cause(error.what())));
  }
}

}  // namespace rueda::examples
