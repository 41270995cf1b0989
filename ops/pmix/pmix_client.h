// SPDX-License-Identifier: Apache-2.0
// PMIx, by which a launcher such as Slurm's srun or Open MPI's mpirun lets its processes exchange values;
// without MPI.
#pragma once

#include <chrono>
#include <future>
#include <optional>
#include <string>

#include "ops/pmix/pmix_library.h"
#include "rueda/types.h"

namespace rueda {

// Purpose: this process as the launcher knows it, and its values. While the object lives, a launcher may end
// the job if the process ends. Used by one thread at a time; libpmix does not like to begin and end at once,
// so an object ends before the next one begins.
class PmixClient {
 public:
  // Throws BackendError where the launcher does not answer within that time.
  explicit PmixClient(const PmixLibrary& library,
                      std::chrono::milliseconds longest_call = std::chrono::seconds(10));
  ~PmixClient();
  PmixClient(const PmixClient&) = delete;
  PmixClient& operator=(const PmixClient&) = delete;

  Rank rank() const { return static_cast<Rank>(self_.rank); }
  Rank size() const { return size_; }
  bool one_host() const { return one_host_; }

  // A key keeps its first value. Throws BackendError where the launcher refuses it. Waits for a second at
  // most.
  void publish(const std::string& key, const std::string& value);
  // Answered once `rank` has published something under the key; without a text where the launcher cannot wait
  // any longer. The answer may come when this object has gone.
  std::future<std::optional<std::string>> ask(Rank rank, const std::string& key) const;

 private:
  const PmixLibrary& library_;
  PmixProcess self_;
  Rank size_ = 0;
  bool one_host_ = false;
  std::future<PmixStatus> taken_;  // what was published
};

}  // namespace rueda
