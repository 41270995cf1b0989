// SPDX-License-Identifier: Apache-2.0
// The checks of one host, one idea each. They need its facts.
#pragma once

#include <vector>

#include "launcher/doctor/checks.h"

namespace rueda {

std::vector<Verdict> check_shared_memory(const ExaminedHost& host, const Examination& job);
std::vector<Verdict> check_memory(const ExaminedHost& host, const Examination& job);
std::vector<Verdict> check_huge_pages(const ExaminedHost& host, const Examination& job);
std::vector<Verdict> check_cores(const ExaminedHost& host, const Examination& job);
std::vector<Verdict> check_clock_source(const ExaminedHost& host, const Examination& job);
std::vector<Verdict> check_open_files(const ExaminedHost& host, const Examination& job);
std::vector<Verdict> check_processes(const ExaminedHost& host, const Examination& job);
std::vector<Verdict> check_locked_memory(const ExaminedHost& host, const Examination& job);
std::vector<Verdict> check_core_files(const ExaminedHost& host, const Examination& job);
std::vector<Verdict> check_left_files(const ExaminedHost& host, const Examination& job);
std::vector<Verdict> check_names(const ExaminedHost& host, const Examination& job);
std::vector<Verdict> check_cards(const ExaminedHost& host, const Examination& job);
std::vector<Verdict> check_libraries(const ExaminedHost& host, const Examination& job);
std::vector<Verdict> check_facts(const ExaminedHost& host, const Examination& job);
std::vector<Verdict> check_program_there(const ExaminedHost& host, const Examination& job);
std::vector<Verdict> check_python(const ExaminedHost& host, const Examination& job);

}  // namespace rueda
