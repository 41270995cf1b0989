// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/mpich_cleanup.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <utility>

namespace rueda {
namespace {

namespace fs = std::filesystem;

// Takes out of `files` what the process has open or mapped. Open ones first: MPICH opens, maps, then closes.
void take_out_used(const fs::path& process, std::set<std::string>& files) {
  std::error_code ignored;
  for (const auto& descriptor : fs::directory_iterator(process / "fd", ignored))
    files.erase(fs::read_symlink(descriptor.path(), ignored).string());
  std::ifstream maps(process / "maps");
  for (std::string line; std::getline(maps, line);) {
    std::size_t path = line.find('/');
    if (path != std::string::npos) files.erase(line.substr(path));
  }
}

}  // namespace

MpichCleanup::MpichCleanup(std::string folder) : folder_(std::move(folder)), before_(files()) {}

std::set<std::string> MpichCleanup::files() const {
  std::set<std::string> found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder_, ignored)) {
    struct stat about {};
    bool ours =
        ::lstat(entry.path().c_str(), &about) == 0 && S_ISREG(about.st_mode) && about.st_uid == ::getuid();
    if (ours && entry.path().filename().string().starts_with("mpich_shm_"))
      found.insert(entry.path().string());
  }
  return found;
}

void MpichCleanup::sweep() const {
  std::set<std::string> left = files();
  for (const std::string& file : before_) left.erase(file);
  remove_unused(std::move(left));
}

std::set<std::string> unused(std::set<std::string> files) {
  if (files.empty()) return files;
  std::error_code ignored;
  for (const auto& process : fs::directory_iterator("/proc", ignored))
    if (std::isdigit(static_cast<unsigned char>(process.path().filename().string().front())) != 0)
      take_out_used(process.path(), files);
  return files;
}

void remove_unused(std::set<std::string> files) {
  std::error_code ignored;
  for (const std::string& file : unused(std::move(files))) fs::remove(file, ignored);
}

}  // namespace rueda
