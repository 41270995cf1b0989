// SPDX-License-Identifier: Apache-2.0
// A file that is a JSON array at any time, and grows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "rueda/status.h"

namespace rueda {

// Purpose: holds the JSON array that a timeline is, one element a line. Every append replaces the closing
// bracket by more elements and a new one, in one write. Owned by one thread.
class TraceFile {
 public:
  TraceFile() = default;
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;
  ~TraceFile();

  // Makes the file anew.
  Status open(const std::string& path);
  // `elements` as TraceJson makes them: a comma before each. After a failure (a full disk) the file is what
  // it was before.
  Status append(std::string_view elements);

 private:
  std::string path_;
  int descriptor_ = -1;
  std::int64_t end_ = 0;  // where the closing bracket stands
  bool empty_ = true;
};

}  // namespace rueda
