// SPDX-License-Identifier: Apache-2.0
// Findings about connections between hosts.
#pragma once

#include <string>
#include <vector>

#include "launcher/doctor/examination.h"
#include "launcher/doctor/findings.h"

namespace rueda {

// Connected cards that send packets of unequal lengths.
std::vector<Finding> check_mtu(const Examination& examination);

// Connections that do not come about. A fault of one card is told once, not for each of its partners.
std::vector<Finding> check_connections(const Examination& examination);

// Slow ones, against the others.
std::vector<Finding> check_bandwidth(const Examination& examination);

// Those that are as fast as the others, and far below the speed of their cards.
std::vector<Finding> check_card_speed(const Examination& examination);

// Long round trips, against the others.
std::vector<Finding> check_latency(const Examination& examination);

// The figures of each card over all hosts.
std::vector<Finding> sum_up_links(const Examination& examination);

// Its name: "eth0".
std::string card_of(const Examination& examination, int host, int card);

}  // namespace rueda
