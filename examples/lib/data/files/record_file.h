// SPDX-License-Identifier: Apache-2.0
// Numbered records in one file, read where they lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/system/descriptor.h"
#include "examples/lib/data/files/file_failure.h"
#include "examples/lib/data/files/mapped_file.h"

namespace rueda::examples {

// Writes records one after the other and keeps only where each ends (8 bytes). Until finish() the file is not
// a record file: whoever opens a half-written one is told so. Used by one thread.
class RecordWriter {
 public:
  // Makes the file, or empties one that is there; a symbolic link is refused. `key` describes the contents,
  // for RecordFile::open.
  RecordWriter(std::filesystem::path path, std::string_view key);

  // Throws std::runtime_error, as all of this class, naming the file if it cannot be written.
  void append(std::span<const std::int32_t> record);
  // All written data is on the disk when this returns.
  void finish();

  std::size_t records() const { return ends_.size(); }

 private:
  void write(std::span<const std::byte> bytes);
  void flush();

  std::filesystem::path path_;
  Descriptor file_;
  std::vector<std::byte> buffer_;
  std::string key_;
  std::vector<std::uint64_t> ends_;  // of each record, in words of 4 bytes from the first one
  std::uint32_t checksum_ = 0;       // of all records
};

// A finished record file, mapped into memory. Any number of threads may read.
class RecordFile {
 public:
  // Reads the whole file once to compare its checksums (about a second for a gigabyte). Throws
  // std::runtime_error naming the file if it is no record file, was cut or changed, or has another key.
  static RecordFile open(const std::filesystem::path& path, std::string_view key);

  std::size_t size() const { return ends_.size(); }
  std::uint32_t checksum() const { return checksum_; }  // of all records
  // Record `index`, which must be below size(); valid as long as this object.
  std::span<const std::int32_t> operator[](std::size_t index) const {
    const std::uint64_t begin = index == 0 ? 0 : ends_[index - 1];
    return words_.subspan(begin, ends_[index] - begin);
  }

 private:
  MappedFile file_;
  std::span<const std::int32_t> words_;
  std::span<const std::uint64_t> ends_;
  std::uint32_t checksum_ = 0;
};

}  // namespace rueda::examples
