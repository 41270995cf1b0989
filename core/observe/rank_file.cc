// SPDX-License-Identifier: Apache-2.0
#include "core/observe/rank_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

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
  const std::string fresh = path + ".new";
  errno = 0;
  std::ofstream file(fresh, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (file && std::rename(fresh.c_str(), path.c_str()) == 0) return {};
  return Status::invalid_argument(fmt::format("cannot write '{}': {}", path, std::strerror(errno)));
}

}  // namespace rueda
