// SPDX-License-Identifier: Apache-2.0
// Files that are read in place, in the page cache of the system.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace rueda::examples {

// A file mapped into memory, read-only. The bytes live as long as this object; moving it keeps them where
// they are. Any thread.
class MappedFile {
 public:
  MappedFile() = default;  // no bytes
  // Throws std::runtime_error naming the file if it cannot be read or is no regular file.
  explicit MappedFile(const std::filesystem::path& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace rueda::examples
