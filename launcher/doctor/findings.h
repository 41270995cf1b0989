// SPDX-License-Identifier: Apache-2.0
// What ruedarun --doctor says.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/doctor/examination.h"

namespace rueda {

// Purpose: one thing that was checked. A plain value.
struct Finding {
  enum class State : std::uint8_t { ok, warning, error };
  State state = State::ok;
  std::string check;               // "open files"
  std::vector<std::string> hosts;  // of which it is true
  std::string sentence;
  std::string remedy;  // a sentence; empty where nothing has to be done
  bool operator==(const Finding&) const = default;
};

std::string_view name_of(Finding::State state);
bool has_error(const std::vector<Finding>& findings);

// Findings that differ in their hosts only become one. The worst stand last, where a terminal shows them.
std::vector<Finding> in_order(const std::vector<Finding>& findings);

// Without the end of a line; control characters become '?', so that no host writes to the terminal.
std::string printable_line(std::string line);

// A line each, and a last one with the sums. `hosts`: of the examination.
std::string to_text(const std::vector<Finding>& findings, std::size_t hosts);
std::string to_json(const std::vector<Finding>& findings, const Examination& examination);

}  // namespace rueda
