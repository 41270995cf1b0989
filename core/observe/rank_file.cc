// SPDX-License-Identifier: Apache-2.0
#include "core/observe/rank_file.h"

#include <stdexcept>
#include <string>

#include "core/base/files/whole_file.h"

namespace rueda {

namespace {

std::string before_extension(std::string path, const std::string& words) {
  const std::size_t folder_end = path.rfind('/') + 1;  // 0 without a folder
  const std::size_t dot = path.rfind('.');
  const bool has_extension = dot != std::string::npos && dot > folder_end;
  return path.insert(has_extension ? dot : path.size(), words);
}

}  // namespace

bool names_rank(std::string_view path) { return path.find("%r") != std::string_view::npos; }

std::string path_of_rank(std::string_view path, Rank rank) {
  std::string result(path);
  const std::string number = std::to_string(rank);
  if (names_rank(path)) {
    for (std::size_t at = 0; (at = result.find("%r", at)) != std::string::npos; at += number.size())
      result.replace(at, 2, number);
    return result;
  }
  return rank == 0 ? result : before_extension(result, ".rank" + number);
}

std::string path_of_generation(std::string_view path, std::uint64_t generation) {
  std::string result(path);
  return generation == 0 ? result : before_extension(result, ".generation" + std::to_string(generation));
}

Status replace_file(const std::string& path, std::string_view text) {
  try {
    WholeFile file(path);
    file.write(text);
    file.commit(false);
    return {};
  } catch (const std::runtime_error& error) {
    return Status::invalid_argument(error.what());
  }
}

}  // namespace rueda
