// SPDX-License-Identifier: Apache-2.0
// TensorBoard event files: scalars over steps, readable while they are being written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace rueda::examples {

// CRC-32C (Castagnoli), as event files use it.
std::uint32_t crc32c(std::string_view bytes);

// One new event file in a folder that TensorBoard watches, sorted behind those that are there. It begins with
// a mark that makes TensorBoard hide the events of older files at `first_step` and later. Used by one thread;
// the file stays whole when the program dies, because every record is flushed at once.
class EventFile {
 public:
  // Creates the folder and `events.out.tfevents.SECONDS.HOST.PID` in it. Throws std::runtime_error naming the
  // path.
  EventFile(const std::filesystem::path& folder, std::int64_t first_step);

  void add_scalar(std::string_view tag, double value, std::int64_t step);

  const std::filesystem::path& path() const { return path_; }

 private:
  void write_record(const std::string& bytes);

  std::filesystem::path path_;
  std::ofstream stream_;
};

// Whether the folder's event files show a value of this tag at this step: one that no later file hides.
bool shows_scalar(const std::filesystem::path& folder, std::string_view tag, std::int64_t step);

}  // namespace rueda::examples
