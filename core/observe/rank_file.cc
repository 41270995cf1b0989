// SPDX-License-Identifier: Apache-2.0
#include "core/observe/rank_file.h"

#include <stdexcept>
#include <string>

#include "core/base/files/whole_file.h"

namespace rueda {

bool names_rank(std::string_view path) { return path.find("%r") != std::string_view::npos; }

std::string path_of_rank(std::string_view path, Rank rank) {
  std::string result(path);
  const std::string number = std::to_string(rank);
  if (names_rank(path)) {
    for (std::size_t at = 0; (at = result.find("%r", at)) != std::string::npos; at += number.size())
      result.replace(at, 2, number);
    return result;
  }
  if (rank == 0) return result;
  const std::size_t folder_end = result.rfind('/') + 1;  // 0 without a folder
  const std::size_t dot = result.rfind('.');
  const bool has_extension = dot != std::string::npos && dot > folder_end;
  return result.insert(has_extension ? dot : result.size(), ".rank" + number);
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
