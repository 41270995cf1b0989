// SPDX-License-Identifier: Apache-2.0
// From facts to findings. Pure.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "launcher/doctor/examination.h"
#include "launcher/doctor/findings.h"

namespace rueda {

// What one check finds on a host: a state, a sentence and a remedy.
struct Verdict {
  Finding::State state = Finding::State::ok;
  std::string sentence;
  std::string remedy{};
};

// A check of each host by itself; the job tells how many hosts and ranks there are.
struct HostCheck {
  std::string_view name;
  std::vector<Verdict> (*judge)(const ExaminedHost& host, const Examination& job);
};
std::span<const HostCheck> host_checks();

// A check of all hosts together.
struct JobCheck {
  std::string_view name;
  std::vector<Finding> (*judge)(const Examination& job);
};
std::span<const JobCheck> job_checks();

// Of all checks, in order.
std::vector<Finding> findings_of(const Examination& job);

}  // namespace rueda
