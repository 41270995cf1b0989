// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/summary_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

#include "core/base/system/descriptor.h"

namespace rueda::report {
namespace {

[[noreturn]] void fail(const char* act, const std::filesystem::path& path, int error) {
  throw std::runtime_error(
      fmt::format("cannot {} {}: {}", act, path.string(), std::generic_category().message(error)));
}

// A pipe without a writer would let the reader wait.
Descriptor open_regular(const std::filesystem::path& path) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) fail("open", path, errno);
  struct stat about {};
  if (::fstat(file.number(), &about) != 0) fail("read", path, errno);
  if (S_ISDIR(about.st_mode)) fail("read", path, EISDIR);
  if (!S_ISREG(about.st_mode))
    throw std::runtime_error(fmt::format("cannot read {}: it is no regular file", path.string()));
  return file;
}

std::string read_text(const std::filesystem::path& path, std::size_t largest) {
  constexpr std::size_t kBlock = 1 << 20;
  const Descriptor file = open_regular(path);
  std::string text;
  for (;;) {
    const std::size_t size = text.size();
    text.resize(size + kBlock);
    const ssize_t count = ::read(file.number(), text.data() + size, kBlock);
    if (count < 0 && errno != EINTR) fail("read", path, errno);
    text.resize(size + static_cast<std::size_t>(std::max<ssize_t>(0, count)));
    if (text.size() > largest)
      throw std::runtime_error(
          fmt::format("{} has more than {} bytes, the most that is read of it", path.string(), largest));
    if (count == 0) return text;
  }
}

// "FILE:LINE:COLUMN", both counted from 1, the column in bytes.
std::string position(const std::filesystem::path& path, std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, std::min(byte, text.size()));
  const std::size_t line_begin = before.rfind('\n') + 1;  // npos + 1 = 0
  return fmt::format("{}:{}:{}", path.string(), std::ranges::count(before, '\n') + 1,
                     before.size() - line_begin + 1);
}

// The parser's message without the numbers in front, on one line.
std::string cause_of(std::string_view message) {
  const std::size_t colon = message.find(": ", std::max<std::size_t>(1, message.find("parse error")) - 1);
  std::string cause(colon == std::string_view::npos ? message : message.substr(colon + 2));
  std::ranges::replace_if(
      cause, [](char letter) { return static_cast<unsigned char>(letter) < 0x20; }, ' ');
  return cause;
}

}  // namespace

nlohmann::json read_summary(const std::filesystem::path& path, std::size_t largest) {
  const std::string text = read_text(path, largest);
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff"))
    throw std::runtime_error(
        fmt::format("{} is text in UTF-16: convert it with iconv -f UTF-16 -t UTF-8", path.string()));
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    // The last byte that was read, counted from 1.
    const std::size_t byte = error.byte > 0 ? error.byte - 1 : 0;
    const std::string cause = byte >= text.size() ? (text.find_first_not_of(" \t\r\n") == std::string::npos
                                                         ? "the file is empty"
                                                         : "the file ends too early: it was cut")
                                                  : cause_of(error.what());
    throw std::runtime_error(fmt::format("{}: malformed JSON: {}", position(path, text, byte), cause));
  } catch (const nlohmann::json::exception& error) {  // a number too large
    throw std::runtime_error(fmt::format("{}: malformed JSON: {}", path.string(), cause_of(error.what())));
  }
}

}  // namespace rueda::report
