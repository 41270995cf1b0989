// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "launcher/doctor/host_checks.h"
#include "launcher/doctor/job_checks.h"
#include "launcher/doctor/link_checks.h"

namespace rueda {
namespace {

constexpr std::array kHostChecks{
    HostCheck{"shared memory", check_shared_memory},
    HostCheck{"memory", check_memory},
    HostCheck{"huge pages", check_huge_pages},
    HostCheck{"cores", check_cores},
    HostCheck{"clock source", check_clock_source},
    HostCheck{"open files", check_open_files},
    HostCheck{"processes", check_processes},
    HostCheck{"locked memory", check_locked_memory},
    HostCheck{"core files", check_core_files},
    HostCheck{"left files", check_left_files},
    HostCheck{"names", check_names},
    HostCheck{"network cards", check_cards},
    HostCheck{"libraries", check_libraries},
    HostCheck{"examination", check_facts},
    HostCheck{"program", check_program_there},
    HostCheck{"Python", check_python},
};

constexpr std::array kJobChecks{
    JobCheck{"hosts", check_answers},
    JobCheck{"versions", check_versions},
    JobCheck{"equal cores", check_equal_cores},
    JobCheck{"clocks", check_clocks},
    JobCheck{"MTU", check_mtu},
    JobCheck{"connections", check_connections},
    JobCheck{"bandwidth", check_bandwidth},
    JobCheck{"card speed", check_card_speed},
    JobCheck{"latency", check_latency},
    JobCheck{"links", sum_up_links},
};

}  // namespace

std::span<const HostCheck> host_checks() { return kHostChecks; }
std::span<const JobCheck> job_checks() { return kJobChecks; }

std::vector<Finding> findings_of(const Examination& job) {
  std::vector<Finding> all;
  for (const HostCheck& check : kHostChecks)
    for (const ExaminedHost& host : job.hosts)
      if (host.facts)
        for (Verdict& verdict : check.judge(host, job))
          all.push_back(
              {verdict.state, std::string(check.name), {host.name}, verdict.sentence, verdict.remedy});
  for (const JobCheck& check : kJobChecks) std::ranges::move(check.judge(job), std::back_inserter(all));
  return all;
}

}  // namespace rueda
