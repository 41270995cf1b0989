// SPDX-License-Identifier: Apache-2.0
// The numbers of rueda-bench, for people and for programs. Rank 0 calls these.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/rueda_bench/devices/pack.h"
#include "bench/rueda_bench/line_plot.h"
#include "bench/rueda_bench/measure.h"
#include "bench/rueda_bench/placement.h"
#include "bench/rueda_bench/sweep.h"

namespace rueda::bench {

// Prints a table; returns the same for programs.
nlohmann::json report(const Experiment& experiment, const Measured& measured, const Placement& placement);
nlohmann::json report(const Experiment& experiment, const std::vector<SweepRow>& rows,
                      const Placement& placement);
nlohmann::json report(const Experiment& experiment, const std::vector<PackRow>& rows,
                      const Placement& placement);
// The bus bandwidths of `rows`, those of the other side too.
LinePlot plot_of(const Experiment& experiment, const std::vector<SweepRow>& rows, const Placement& placement);
// Throws std::runtime_error, naming the option, when the file cannot be written.
void write_file(const std::string& option, const std::string& path, const std::string& text);

}  // namespace rueda::bench
