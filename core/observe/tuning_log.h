// SPDX-License-Identifier: Apache-2.0
// The file with the tuner's records.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "core/control/autotune/tuning_search.h"
#include "rueda/status.h"

namespace rueda {

// Purpose: writes the tuner's records as CSV, one a line, complete after each; verdicts also go to the log at
// level info. Owned by the background thread of rank 0. Lives in the Observer.
class TuningLog {
 public:
  // Makes the file anew. Without it only verdicts are told.
  Status open(const std::string& path);
  void write(const TuningRecord& record);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
  std::string path_;
};

}  // namespace rueda
