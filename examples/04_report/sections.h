// SPDX-License-Identifier: Apache-2.0
// The parts of the page on the runs of one task, each as HTML; empty text if there is nothing to say.
#pragma once

#include <string>

#include "examples/04_report/comparisons.h"

namespace rueda::examples::report {

// Tables: the runs, and their results.
std::string overview_section(const Runs& runs);
std::string results_section(const Runs& runs);
// Losses and evaluations over steps and time; names the runs that have no curve.
std::string training_section(const Runs& runs);
// Time and efficiency by ranks, beside published results.
std::string scaling_section(const Runs& runs);
// Quality and time by how often ranks synchronise, beside published results.
std::string sync_section(const Runs& runs);
// How a step divides into reading data, computing and waiting.
std::string split_section(const Runs& runs);
// The published numbers themselves, once for the whole page.
std::string published_section();

// Names apart by commas, as text.
std::string names_of(const Runs& runs);

}  // namespace rueda::examples::report
