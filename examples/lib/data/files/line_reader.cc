// SPDX-License-Identifier: Apache-2.0
// Lines through zlib, which also reads files that are not compressed.
#include "examples/lib/data/files/line_reader.h"

#include <fmt/format.h>
#include <unicode/utf8.h>
#include <zlib.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "examples/lib/data/files/foreign_file.h"

namespace rueda::examples {
namespace {

constexpr std::size_t kBlock = 1 << 18;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

gzFile as_gzip(void* file) { return static_cast<gzFile>(file); }

}  // namespace

void LineReader::Close::operator()(void* file) const { gzclose(as_gzip(file)); }

LineReader::LineReader(std::filesystem::path path, BadItems* bad, std::size_t most_bytes)
    : path_(std::move(path)), bad_(bad), most_bytes_(most_bytes) {
  errno = 0;
  file_.reset(gzopen(path_.c_str(), "rb"));
  if (file_ == nullptr) {
    throw std::runtime_error(
        fmt::format("cannot open {}: {}", path_.string(), std::generic_category().message(errno)));
  }
  gzbuffer(as_gzip(file_.get()), kBlock);
}

std::string LineReader::source() const { return fmt::format("{}:{}", path_.string(), number_); }

bool LineReader::next(std::string_view& line) {
  while (next_bytes(line)) {
    const std::optional<std::string> found = fault(line);
    if (!found) return true;
    if (bad_ == nullptr) throw std::runtime_error(*found);
    bad_->add(*found);
  }
  return false;
}

bool LineReader::next_bytes(std::string_view& line) {
  std::size_t searched = begin_;
  std::size_t end = buffer_.find('\n', searched);
  while (end == buffer_.npos && !at_end_) {
    searched = buffer_.size() - begin_;  // the rest moves to the front
    if (searched > most_bytes_) break;
    fill();
    end = buffer_.find('\n', searched);
  }
  const std::size_t past = end == buffer_.npos ? buffer_.size() : end;
  if (end == buffer_.npos && begin_ == past) return false;
  ++number_;
  if (past - begin_ > most_bytes_) {
    throw std::runtime_error(fmt::format("{}: a line of more than {} bytes; is this a text file with lines?",
                                         source(), most_bytes_));
  }
  line = std::string_view(buffer_).substr(begin_, past - begin_);
  begin_ = end == buffer_.npos ? past : end + 1;
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (number_ == 1 && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  if (number_ == 1) refuse_foreign_file(path_, line);
  return true;
}

// Appends a block of the file behind the bytes that have not been given yet.
void LineReader::fill() {
  buffer_.erase(0, begin_);
  begin_ = 0;
  const std::size_t size = buffer_.size();
  buffer_.resize(size + kBlock);
  errno = 0;
  const int got = gzread(as_gzip(file_.get()), buffer_.data() + size, kBlock);
  buffer_.resize(size + (got > 0 ? static_cast<std::size_t>(got) : 0));
  int error = Z_OK;
  const char* words = gzerror(as_gzip(file_.get()), &error);
  if (error == Z_ERRNO) {
    throw std::runtime_error(
        fmt::format("cannot read {}: {}", path_.string(), std::generic_category().message(errno)));
  }
  if (error == Z_BUF_ERROR) {
    throw std::runtime_error(
        fmt::format("{}: the gzip file ends too early, after line {}; it was cut", path_.string(), number_));
  }
  if (error != Z_OK && error != Z_STREAM_END) {
    throw std::runtime_error(
        fmt::format("{}: the gzip file is damaged behind line {}: {}", path_.string(), number_, words));
  }
  at_end_ = got <= 0;
}

std::optional<std::string> LineReader::fault(std::string_view line) const {
  for (std::size_t position = 0; position < line.size();) {
    const std::size_t begin = position;
    UChar32 character;
    U8_NEXT(line.data(), position, line.size(), character);
    if (character >= 0) continue;
    return fmt::format("{}: not valid UTF-8 (byte 0x{:02x}); convert the file to UTF-8", source(),
                       static_cast<unsigned char>(line[begin]));
  }
  return std::nullopt;
}

}  // namespace rueda::examples
