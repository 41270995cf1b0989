// SPDX-License-Identifier: Apache-2.0
// Hosts without a fault, for tests that plant one.
#pragma once

#include <string>
#include <vector>

#include "launcher/doctor/examination.h"

namespace rueda {

inline agents::HostFacts good_facts(int host, int hosts) {
  agents::HostFacts facts;
  facts.memory = {.shm_bytes = 8ULL << 30,
                  .shm_free = 8ULL << 30,
                  .installed = 64ULL << 30,
                  .available = 60ULL << 30,
                  .huge_pages = "madvise"};
  facts.cores = {.online = 8, .usable = 8, .physical = 4, .numa_nodes = 1, .clock_source = "tsc"};
  const agents::LimitFacts none{agents::kUnlimited, agents::kUnlimited};
  facts.processes = {
      .open_files = {65536, 65536}, .processes = none, .locked_memory = none, .core_file = none};
  for (int card = 0; card < 2; ++card)
    facts.network.cards.push_back({"eth" + std::to_string(card),
                                   "10.77." + std::to_string(card) + "." + std::to_string(host + 1), 4000, 0,
                                   1500});
  for (int other = 0; other < hosts; ++other)
    facts.network.names.push_back(
        {"h" + std::to_string(other), {"10.77.0." + std::to_string(other + 1)}, ""});
  facts.processes.sees_all = true;
  facts.software.rueda = "0.1.0";
  facts.software.torch = "2.9.1";
  facts.software.mpi = "MPICH Version: 4.2";
  return facts;
}

// Hosts h0, h1, ... with two cards each, all connected by 1 Gbit/s.
inline Examination good_job(int hosts) {
  Examination job;
  for (int host = 0; host < hosts; ++host)
    job.hosts.push_back({.name = "h" + std::to_string(host),
                         .facts = good_facts(host, hosts),
                         .clock = ClockDifference{20'000, 30'000}});
  for (int a = 0; a < hosts; ++a)
    for (int b = a + 1; b < hosts; ++b)
      for (int card = 0; card < 2; ++card) {
        job.tried.push_back({a, b, card, card, ""});
        job.tried.push_back({b, a, card, card, ""});
        job.links.push_back({a, b, card, card, 100'000, 125'000'000, 124'000'000, ""});
      }
  return job;
}

}  // namespace rueda
