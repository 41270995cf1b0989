// SPDX-License-Identifier: Apache-2.0
// Rank 0's address by PMIx.
#pragma once

#include <future>
#include <memory>
#include <optional>
#include <string>

#include "ops/bootstrap/address/key_value_store.h"
#include "ops/bootstrap/launch.h"
#include "ops/pmix/pmix_client.h"

namespace rueda {

// Purpose: values of rank 0, for one job of all ranks; a later job of the process sees none of them. The
// launcher has this process as a client while the store lives.
class PmixStore final : public KeyValueStore {
 public:
  explicit PmixStore(const PmixLibrary& library);

  const PmixClient& client() const { return client_; }

  // On rank 0, once for a key.
  void set(const std::string& key, const std::string& value) override;
  // Of one key always.
  std::optional<std::string> get(const std::string& key) override;
  // A value of PMIx stays.
  void retire(const std::string&, const std::string&) override {}
  // So that it is used, and ends, on the threads of the job alone: the end must not meet the next beginning.
  bool may_block() const override { return false; }
  std::string in_words() const override { return "PMIx, where rank 0 leaves its address"; }

 private:
  std::string of_this_job(const std::string& key) const;

  PmixClient client_;
  const int job_;
  std::future<std::optional<std::string>> answer_;  // while it is awaited
  std::optional<std::string> value_;
};

// Asks PMIx for the rank and the number of ranks. Throws BackendError.
Launch numbered_by_pmix(Launch launch);

}  // namespace rueda
