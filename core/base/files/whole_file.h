// SPDX-License-Identifier: Apache-2.0
// Files that are read and written whole.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "core/base/system/descriptor.h"

namespace rueda {

// Purpose: one file while it is written. It has a hidden name in the same folder, which nobody can foretell,
// and gets its own name at the end. So a link that somebody has left there is never followed. An older file
// stays until then. A writer that is killed leaves the hidden file behind, which the next one for that path
// removes. Errors are std::runtime_error, and name the path. Used by one thread.
class WholeFile {
 public:
  explicit WholeFile(const std::filesystem::path& path);
  // Removes the file unless it was committed.
  ~WholeFile();
  WholeFile(const WholeFile&) = delete;
  WholeFile& operator=(const WholeFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  // Gives the file its own name. Durable: returns after the file and its name are on the disk.
  void commit(bool durable = true);

 private:
  bool has_room(bool durable) const;

  std::filesystem::path path_;
  std::filesystem::path hidden_;
  Descriptor file_;  // locked
  bool committed_ = false;
};

// Returns the bytes of a file. Throws std::runtime_error, which names the file.
std::string read_file(const std::filesystem::path& path);

}  // namespace rueda
