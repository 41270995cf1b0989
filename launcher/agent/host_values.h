// SPDX-License-Identifier: Apache-2.0
// Values that ranks of all hosts share, on one host.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "launcher/agent/pmi_server.h"

namespace rueda {

// Purpose: keeps the values, and remembers each rank that has asked for one too early. Pure. Owned by the
// agent's thread.
class HostValues {
 public:
  const SharedValues& all() const { return values_; }
  // Null if there is none yet: put() names this rank then. `number`: any that tells the ranks of the host
  // apart.
  const std::string* get(int number, const std::string& key);
  // The ranks that have waited for it. An empty value takes the key away.
  std::vector<int> put(const std::string& key, const std::string& value);

 private:
  SharedValues values_;
  std::vector<std::pair<int, std::string>> unanswered_;  // ranks, and the keys that they want
};

}  // namespace rueda
