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

// One new event file in a folder that TensorBoard watches. Used by one thread; the file stays whole when the
// program dies, because every record is flushed at once.
class EventFile {
 public:
  // Creates the folder and `events.out.tfevents.SECONDS.HOST.PID` in it. Throws std::runtime_error naming the
  // path.
  explicit EventFile(const std::filesystem::path& folder);

  void add_scalar(std::string_view tag, double value, std::int64_t step);

  const std::filesystem::path& path() const { return path_; }

 private:
  void write_record(const std::string& bytes);

  std::filesystem::path path_;
  std::ofstream stream_;
};

}  // namespace rueda::examples
