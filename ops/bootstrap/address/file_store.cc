// SPDX-License-Identifier: Apache-2.0
#include "ops/bootstrap/address/file_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/base/system/descriptor.h"
#include "ops/bootstrap/address/start_error.h"

namespace rueda {
namespace {

constexpr std::size_t kLongestFile = 64 << 10;

[[noreturn]] void blame_folder(const std::string& what, int error) {
  cannot_start(fmt::format("RUEDA_BOOTSTRAP=file: {}: {}. Name a folder that every host has and may write.",
                           what, std::generic_category().message(error)));
}

// A host keeps for some seconds in mind that a file of NFS is not there; reading the folder makes it look.
void refresh_folder(const std::string& folder) {
  if (DIR* opened = ::opendir(folder.c_str())) {
    while (::readdir(opened) != nullptr) {}
    ::closedir(opened);
  }
}

}  // namespace

FileStore::FileStore(std::string folder) : folder_(std::move(folder)) {
  std::error_code ignored;  // stat() tells
  std::filesystem::create_directories(std::filesystem::path(folder_).parent_path(), ignored);
  ::mkdir(folder_.c_str(), S_IRWXU);
  struct stat about {};
  if (::stat(folder_.c_str(), &about) != 0) blame_folder("no folder " + folder_, errno);
  if (!S_ISDIR(about.st_mode)) blame_folder(folder_, ENOTDIR);
  if (about.st_uid != ::geteuid() || (about.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    blame_folder(folder_ + " belongs to another user, or others may write in it", EPERM);
}

std::string FileStore::path_of(const std::string& key) const {
  std::string name = key;
  std::ranges::replace(name, '/', '.');
  return folder_ + "/" + name;
}

void FileStore::set(const std::string& key, const std::string& value) {
  const std::string path = path_of(key);
  std::string fresh = path + ".XXXXXX";
  const Descriptor file(::mkostemp(fresh.data(), O_CLOEXEC));  // 0600
  if (!file) blame_folder("cannot write " + fresh, errno);
  const std::string line = value + "\n";
  const bool written =
      ::write(file.number(), line.data(), line.size()) == static_cast<ssize_t>(line.size()) &&
      ::fsync(file.number()) == 0 && ::rename(fresh.c_str(), path.c_str()) == 0;
  if (written) return;
  const int error = errno;
  ::unlink(fresh.c_str());
  blame_folder("cannot write " + path, error);
}

std::optional<std::string> FileStore::get(const std::string& key) {
  const std::string path = path_of(key);
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file && (errno == ENOENT || errno == ESTALE)) {
    refresh_folder(folder_);
    return std::nullopt;
  }
  struct stat about {};
  if (!file || ::fstat(file.number(), &about) != 0) blame_folder("cannot read " + path, errno);
  if (!S_ISREG(about.st_mode)) blame_folder(path + " is no file", EINVAL);
  if (about.st_uid != ::geteuid()) blame_folder(path + " belongs to another user", EPERM);
  std::string text(std::min(kLongestFile, static_cast<std::size_t>(about.st_size)), '\0');
  const ssize_t count = ::read(file.number(), text.data(), text.size());
  text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  if (!text.ends_with('\n')) return std::nullopt;
  text.pop_back();
  return text;
}

void FileStore::remove(const std::string& key) { ::unlink(path_of(key).c_str()); }

}  // namespace rueda
