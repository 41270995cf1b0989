// SPDX-License-Identifier: Apache-2.0
// Names, keys and locks of the caches of tokenized texts.
#include "examples/lib/data/token_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unicode/uversion.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/base/system/descriptor.h"
#include "examples/lib/data/batches.h"

namespace rueda::examples {
namespace {

constexpr std::size_t kNamePart = 64;  // of the data file's: names have 255 bytes at most
constexpr int kVersion = 1;            // version of the tokenization; another version makes caches anew

std::uint64_t hash_of(std::string_view text, std::uint64_t hash = 0) {
  for (const char byte : text) hash = mix(hash, static_cast<unsigned char>(byte));
  return mix(hash, text.size());
}

// Which file, and as it is now.
struct Identity {
  std::string path;
  std::string state;
};

Identity identity_of(const std::filesystem::path& source) {
  struct stat status {};
  if (::stat(source.c_str(), &status) != 0) fail_on_file("read", source, errno);
  return {std::filesystem::canonical(source).string(),
          fmt::format("{} bytes, device {}, inode {}, changed {}.{:09}", status.st_size, status.st_dev,
                      status.st_ino, status.st_mtim.tv_sec, status.st_mtim.tv_nsec)};
}

// Removes a file at its end unless it was released.
class Temporary {
 public:
  explicit Temporary(std::filesystem::path path) : path_(std::move(path)) {}
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  ~Temporary() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  const std::filesystem::path& path() const { return path_; }
  void release() { path_.clear(); }

 private:
  std::filesystem::path path_;
};

bool is_folder_of_this_user(const std::filesystem::path& folder) {
  struct stat name {};  // which may be a link
  struct stat status {};
  if (::lstat(folder.c_str(), &name) != 0 || ::stat(folder.c_str(), &status) != 0)
    fail_on_file("read", folder, errno);
  return S_ISDIR(status.st_mode) && name.st_uid == ::geteuid() && status.st_uid == ::geteuid() &&
         (status.st_mode & S_IWOTH) == 0;
}

// Only the user may change the cache. Another user may have prepared a folder with links, so that root writes
// to the targets of these links: such a folder is refused.
void make_private_folder(const std::filesystem::path& folder) {
  std::error_code failure;
  if (folder.has_parent_path()) std::filesystem::create_directories(folder.parent_path(), failure);
  if (!failure && ::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    failure = {errno, std::generic_category()};
  if (failure) {
    throw std::runtime_error(fmt::format("cannot make the folder {} for the cache: {}; choose another one",
                                         folder.string(), failure.message()));
  }
  if (is_folder_of_this_user(folder)) return;
  throw std::runtime_error(
      fmt::format("{} is not a folder that this user alone can write to; choose another one for the cache",
                  folder.string()));
}

std::optional<RecordFile> open_if_good(const std::filesystem::path& file, const std::string& key) {
  try {
    if (std::filesystem::exists(file)) return RecordFile::open(file, key);
  } catch (const std::runtime_error&) {  // old or damaged: it is made anew
  }
  return std::nullopt;
}

}  // namespace

std::uint64_t hash_of(const WordPieceTokenizer& tokenizer) {
  std::uint64_t hash = tokenizer.settings().normalizer.lower_case ? 1 : 0;
  for (std::size_t id = 0; id < tokenizer.vocab_size(); ++id)
    hash = hash_of(tokenizer.token(static_cast<std::int32_t>(id)), hash);
  const std::string unusual = unusual_settings(tokenizer.settings());
  return unusual.empty() ? hash : hash_of(unusual, hash);
}

TokenCache TokenCache::none() { return {}; }

TokenCache::TokenCache(std::filesystem::path folder, Say say)
    : folder_(std::move(folder)), say_(std::move(say)) {}

RecordFile TokenCache::get(const Key& key, const WordPieceTokenizer& tokenizer, const Build& build) const {
  const Identity source = identity_of(key.source);
  const std::string made_by =
      fmt::format("{} of {}\n{}\nvocabulary {:016x}\nversion {}, ICU {}\n", key.kind, source.path,
                  key.settings, hash_of(tokenizer), kVersion, U_ICU_VERSION);
  const std::string whole_key = made_by + source.state;
  if (!folder_) {
    std::string name = (std::filesystem::temp_directory_path() / "rueda-tokens-XXXXXX").string();
    const Descriptor made(::mkstemp(name.data()));
    if (made.number() < 0) fail_on_file("write", name, errno);
    const Temporary file(name);
    RecordWriter writer(file.path(), whole_key);
    build(writer);
    writer.finish();
    return RecordFile::open(file.path(), whole_key);  // stays readable when its name is gone
  }

  make_private_folder(*folder_);
  const std::filesystem::path file =
      *folder_ / fmt::format("{}-{}-{:016x}", key.source.stem().string().substr(0, kNamePart), key.kind,
                             hash_of(made_by));
  if (auto cached = open_if_good(file, whole_key)) return *std::move(cached);

  // The lock ends with the process, whatever becomes of it. Its file stays: were it removed, two processes
  // could hold locks on two files of that name.
  const std::filesystem::path lock_name = file.string() + ".lock";
  const Descriptor lock(::open(lock_name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (lock.number() < 0) fail_on_file("write", lock_name, errno);
  if (::flock(lock.number(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK)
      tell(fmt::format("another process prepares {}; waiting for it", key.source.string()));
    while (::flock(lock.number(), LOCK_EX) != 0)
      if (errno != EINTR) fail_on_file("lock", lock_name, errno);
  }
  if (auto cached = open_if_good(file, whole_key)) return *std::move(cached);
  tell(fmt::format("preparing {}, once for this node, in {}", key.source.string(), file.string()));
  return make(file, whole_key, build);
}

// The caller holds the lock, so the temporary name is ours. A dead process's file is overwritten.
RecordFile TokenCache::make(const std::filesystem::path& file, const std::string& key,
                            const Build& build) const {
  Temporary temporary(file.string() + ".tmp");
  RecordWriter writer(temporary.path(), key);
  build(writer);
  writer.finish();
  if (::rename(temporary.path().c_str(), file.c_str()) != 0) fail_on_file("write", file, errno);
  temporary.release();
  return RecordFile::open(file, key);
}

void TokenCache::tell(const std::string& line) const {
  if (say_) say_(line);
}

std::filesystem::path default_cache_folder() {
  const char* chosen = std::getenv("TMPDIR");
  const std::filesystem::path base = chosen != nullptr && *chosen != '\0' ? chosen : "/var/tmp";
  return base / fmt::format("rueda-cache-{}", ::geteuid());
}

}  // namespace rueda::examples
