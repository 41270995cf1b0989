// SPDX-License-Identifier: Apache-2.0
// The parts of the page on the runs of one task, each as JSON; null if there is nothing to say.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "launcher/report/comparisons.h"

namespace rueda::report {

// A section has a title, and some of: tables, charts, bars, notes, and `more`, which is folded.
// The runs.
nlohmann::json overview_section(const Runs& runs);
// Their results.
nlohmann::json results_section(const Runs& runs);
// Losses and evaluations over steps and time; names the runs that have no curve.
nlohmann::json training_section(const Runs& runs);
// Time and efficiency by ranks, beside published results.
nlohmann::json scaling_section(const Runs& runs);
// Quality and time by how often ranks synchronise, beside published results.
nlohmann::json sync_section(const Runs& runs);
// How a step divides into reading data, computing and waiting.
nlohmann::json split_section(const Runs& runs);
// The published numbers themselves, once for the whole page.
nlohmann::json published_section();

// Names apart by commas, as text.
std::string names_of(const Runs& runs);

}  // namespace rueda::report
