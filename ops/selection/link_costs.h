// SPDX-License-Identifier: Apache-2.0
// The costs of a message between two hosts, measured at a job's start or read from an earlier job's file.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ops/link/link.h"
#include "rueda/status.h"

namespace rueda {

// Seconds that ranks need to exchange a message in pairs, and for each byte of it.
struct LinkCosts {
  double message = 0;
  double byte = 0;
};

// All ranks exchange some short messages, then the first ranks of all hosts long ones, for less than a
// second; every rank calls it. Rank 0 says how many of each, none unless `wanted`, so that nobody has to
// agree before. Nothing where somebody did not answer in time, and on all ranks but 0. Throws PeerGone as the
// link does.
std::optional<LinkCosts> measure_costs(Link& link, Rank rank, const std::vector<std::string>& hosts,
                                       bool wanted, const std::function<void()>& alive);

// Files hold a line for each link: "tcp message_us=43.1 byte_ns=40.2". Returns the costs of `link`. Without a
// file or a line there are no costs and the status is ok; an unreadable line is an error.
struct SavedCosts {
  std::optional<LinkCosts> costs;
  Status status;
};
SavedCosts read_costs(const std::string& path, std::string_view link);
// Adds a line to what is there.
Status save_costs(const std::string& path, std::string_view link, const LinkCosts& costs);

}  // namespace rueda
