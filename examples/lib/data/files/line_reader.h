// SPDX-License-Identifier: Apache-2.0
// Text files read line by line, however large; compressed by gzip or not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "examples/lib/data/files/bad_items.h"

namespace rueda::examples {

// Gives one line after the other and keeps no more than that one and a block of the file. A file that begins
// as gzip does is decompressed on the way, whatever its name. Used by one thread.
class LineReader {
 public:
  // Longer lines are refused, so that a file that is no text does not fill the memory.
  static constexpr std::size_t kMostBytes = std::size_t{1} << 30;

  // Lines that are not valid UTF-8 are left out, and counted in `bad`; without it they are refused. Throws
  // std::runtime_error if the file cannot be opened.
  explicit LineReader(std::filesystem::path path, BadItems* bad = nullptr,
                      std::size_t most_bytes = kMostBytes);

  // The next line without its line end (LF or CR LF) and byte order mark, valid until the next call; false at
  // the end of the file. Throws std::runtime_error naming file and line: not valid UTF-8, too long,
  // unreadable, gzip cut or broken.
  bool next(std::string_view& line);

  std::uint64_t number() const { return number_; }  // of the line given last, from 1
  // "FILE:LINE" of that line, for messages.
  std::string source() const;

 private:
  struct Close {
    void operator()(void* file) const;
  };

  bool next_bytes(std::string_view& line);
  void fill();
  std::optional<std::string> fault(std::string_view line) const;

  std::filesystem::path path_;
  BadItems* bad_;
  std::size_t most_bytes_;
  std::unique_ptr<void, Close> file_;  // zlib's gzFile
  std::string buffer_;
  std::size_t begin_ = 0;  // of the bytes that have not been given yet
  std::uint64_t number_ = 0;
  bool at_end_ = false;
};

}  // namespace rueda::examples
