// SPDX-License-Identifier: Apache-2.0
// Record files and the cache of them: what is found again, what is made anew, and by how many processes.
#include "examples/lib/data/token_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include <array>
#include <chrono>
#include <fstream>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/scratch_folder.h"

namespace rueda::examples {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Record = std::vector<std::int32_t>;

class RecordFiles : public testing::Test {
 protected:
  void write(const std::vector<Record>& records) const {
    RecordWriter writer(path_, "key");
    for (const Record& record : records) writer.append(record);
    writer.finish();
  }
  std::string error(const std::string& key = "key") const {
    return error_message([&] { RecordFile::open(path_, key); });
  }
  ScratchFolder scratch_;
  std::filesystem::path path_ = scratch_.path() / "records";
};

TEST_F(RecordFiles, HoldWhatWasWritten) {
  Record large(1 << 20);
  std::iota(large.begin(), large.end(), 5);
  const std::vector<Record> records = {{1, 2, 3}, {}, large, {-7}, {}};
  write(records);
  const RecordFile file = RecordFile::open(path_, "key");
  ASSERT_EQ(file.size(), records.size());
  for (std::size_t i = 0; i < records.size(); ++i)
    EXPECT_EQ(Record(file[i].begin(), file[i].end()), records[i]);
  write({});
  EXPECT_EQ(RecordFile::open(path_, "key").size(), 0U);
}

TEST_F(RecordFiles, AnyDamageIsSeen) {
  write({{1, 2, 3}, {4, 5}, {6}});
  const auto size = std::filesystem::file_size(path_);
  std::string good(size, '\0');
  std::ifstream(path_, std::ios::binary).read(good.data(), static_cast<std::streamsize>(size));
  const auto padding = good.find("key") + 3;  // up to where the records begin, at a multiple of 8
  for (std::size_t i = 0; i < size; ++i) {
    if (i >= padding && i < (padding + 7) / 8 * 8) continue;
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    scratch_.write("records", bad);
    EXPECT_FALSE(error().empty()) << "byte " << i;
  }
  for (std::size_t kept = 0; kept < size; ++kept) {
    scratch_.write("records", good.substr(0, kept));
    EXPECT_FALSE(error().empty()) << kept << " bytes";
  }
  scratch_.write("records", good);
  EXPECT_THAT(error("other"), HasSubstr("from another file or with other settings"));
}

TEST_F(RecordFiles, EndsThatFallAreSeen) {
  write({{1, 2, 3}, {4, 5}, {6, 7}});
  std::array<std::uint64_t, 3> ends{};
  std::fstream file(path_, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(-static_cast<std::streamoff>(sizeof ends), std::ios::end);
  file.read(reinterpret_cast<char*>(ends.data()), sizeof ends);
  ASSERT_THAT(ends, ElementsAre(3, 5, 7));
  ends = {5, 3, 7};
  file.seekp(-static_cast<std::streamoff>(sizeof ends), std::ios::end);
  file.write(reinterpret_cast<const char*>(ends.data()), sizeof ends);
  const auto* bytes = reinterpret_cast<const unsigned char*>(ends.data());
  const auto sum = crc32_z(crc32_z(0, bytes, sizeof ends), reinterpret_cast<const unsigned char*>("key"), 3);
  const auto checksum = static_cast<std::uint32_t>(sum);
  file.seekp(44);  // the header's checksum of the ends and the key
  file.write(reinterpret_cast<const char*>(&checksum), sizeof checksum);
  file.close();
  EXPECT_THAT(error(), HasSubstr("the index is damaged"));
}

TEST_F(RecordFiles, AreNotWrittenThroughLinks) {
  scratch_.write("precious", "kept");
  std::filesystem::create_symlink(scratch_.path() / "precious", path_);
  EXPECT_THAT(error_message([&] { RecordWriter(path_, "key"); }), HasSubstr(path_.string()));
  EXPECT_EQ(std::filesystem::file_size(scratch_.path() / "precious"), 4U);
}

TEST_F(RecordFiles, UnfinishedOnesAreNone) {
  RecordWriter writer(path_, "key");
  writer.append(Record(1 << 20, 3));
  EXPECT_THAT(error(), HasSubstr("not a finished file"));
  EXPECT_THAT(error_message([] { RecordWriter("/nonexistent/records", "key"); }),
              HasSubstr("cannot write /nonexistent/records"));
}

class TokenCaches : public testing::Test {
 protected:
  TokenCaches() { tokenizer_.emplace(tokenizer("a\nb\n")); }

  WordPieceTokenizer tokenizer(const std::string& words) const {
    return WordPieceTokenizer::from_file(
        scratch_.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n" + words));
  }

  Record get(const std::string& settings = "", const WordPieceTokenizer* other = nullptr) {
    const RecordFile file = cache_.get({source_, "kind", settings}, other != nullptr ? *other : *tokenizer_,
                                       [this](RecordWriter& writer) {
                                         ++built_;
                                         writer.append(Record{1, 2, 3});
                                       });
    return {file[0].begin(), file[0].end()};
  }

  std::vector<std::filesystem::path> files(const std::string& ending = "") const {
    std::vector<std::filesystem::path> found;
    for (const auto& entry : std::filesystem::directory_iterator(scratch_.path() / "cache"))
      if (entry.path().extension() == ending) found.push_back(entry.path());
    return found;
  }

  ScratchFolder scratch_;
  std::filesystem::path source_ = scratch_.write("text.txt", "a b");
  std::vector<std::string> said_;
  TokenCache cache_{scratch_.path() / "cache", [this](const std::string& line) { said_.push_back(line); }};
  std::optional<WordPieceTokenizer> tokenizer_;
  int built_ = 0;
};

TEST_F(TokenCaches, MakeOnceForEqualSettings) {
  EXPECT_THAT(get(), ElementsAre(1, 2, 3));
  EXPECT_THAT(get(), ElementsAre(1, 2, 3));
  EXPECT_EQ(built_, 1);
  ASSERT_EQ(said_.size(), 1U);
  EXPECT_THAT(said_[0], HasSubstr("preparing " + source_.string()));
  get("longer");
  EXPECT_EQ(built_, 2);
  const auto other = tokenizer("a\nc\n");
  get("", &other);
  EXPECT_EQ(built_, 3);
  get();
  get("longer");
  EXPECT_EQ(built_, 3) << "each has its own file";
}

TEST_F(TokenCaches, MakeAnewWhenTheFileChangedAndReplaceTheOldOne) {
  get();
  scratch_.write("text.txt", "a b c");
  get();
  EXPECT_EQ(built_, 2);
  std::filesystem::last_write_time(source_,
                                   std::filesystem::last_write_time(source_) + std::chrono::seconds(1));
  get();
  EXPECT_EQ(built_, 3);
  EXPECT_EQ(files().size(), 1U);
}

TEST_F(TokenCaches, MakeAnewWhenDamaged) {
  get();
  const auto file = files().at(0);
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 4);
  EXPECT_THAT(get(), ElementsAre(1, 2, 3));
  EXPECT_EQ(built_, 2);
}

TEST_F(TokenCaches, KeepNothingOfAFailure) {
  const auto fail = [&] {
    cache_.get({source_, "kind", ""}, *tokenizer_, [](RecordWriter& writer) {
      writer.append(Record{1});
      throw std::runtime_error("text.txt:7: bad");
    });
  };
  EXPECT_EQ(error_message(fail), "text.txt:7: bad");
  EXPECT_THAT(files(), IsEmpty());
  EXPECT_THAT(files(".tmp"), IsEmpty());
  EXPECT_THAT(get(), ElementsAre(1, 2, 3)) << "the lock is free again";
}

TEST_F(TokenCaches, WithoutFolderLeaveNoFile) {
  const RecordFile file = TokenCache::none().get({source_, "kind", ""}, *tokenizer_,
                                                 [](RecordWriter& writer) { writer.append(Record{4}); });
  EXPECT_THAT(file[0], ElementsAre(4));
  EXPECT_FALSE(std::filesystem::exists(scratch_.path() / "cache"));
}

TEST_F(TokenCaches, NameWhatIsWrong) {
  EXPECT_THAT(error_message([&] {
                TokenCache(scratch_.write("file", "") / "cache").get({source_, "kind", ""}, *tokenizer_, {});
              }),
              HasSubstr("for the cache"));
  EXPECT_THAT(error_message([&] {
                cache_.get({scratch_.path() / "none", "kind", ""}, *tokenizer_, {});
              }),
              HasSubstr("none: No such file"));
}

TEST_F(TokenCaches, AFolderOfOthersIsNotTaken) {
  get();
  const std::filesystem::path folder = scratch_.path() / "cache";
  const auto refusal = [&] { return error_message([&] { get("other"); }); };
  std::filesystem::permissions(folder, std::filesystem::perms::others_write,
                               std::filesystem::perm_options::add);
  EXPECT_THAT(refusal(), HasSubstr("cache is not a folder that this user alone can write to; choose another"));
  std::filesystem::permissions(folder, std::filesystem::perms::others_write,
                               std::filesystem::perm_options::remove);
  EXPECT_THAT(get("another"), ElementsAre(1, 2, 3));
  if (::chown(folder.c_str(), 12345, 12345) != 0) return;  // root alone can give a folder away
  EXPECT_THAT(refusal(), HasSubstr("that this user alone can write to"));
}

TEST_F(TokenCaches, NothingIsWrittenThroughALink) {
  get();
  const std::filesystem::path precious = scratch_.write("precious", "kept");
  for (const std::filesystem::path& lock : files(".lock")) {
    std::filesystem::path file = lock;
    file.replace_extension();
    std::filesystem::remove(file);
    std::filesystem::create_symlink(precious, file.string() + ".tmp");
    EXPECT_THAT(error_message([&] { get(); }), HasSubstr(".tmp: "));
    std::filesystem::remove(lock);
    std::filesystem::create_symlink(precious, lock);
    EXPECT_THAT(error_message([&] { get(); }), HasSubstr(".lock: "));
  }
  EXPECT_EQ(std::filesystem::file_size(precious), 4U);
}

TEST_F(TokenCaches, NamesOfAnyLengthFit) {
  source_ = scratch_.write(std::string(250, 'n'), "a b");
  EXPECT_THAT(get(), ElementsAre(1, 2, 3));
  EXPECT_THAT(get(), ElementsAre(1, 2, 3));
  EXPECT_EQ(built_, 1);
}

// What `build` does in a process of its own; its number.
template <class Build>
pid_t in_a_process(const TokenCache& cache, const TokenCache::Key& key, const WordPieceTokenizer& tokenizer,
                   Build build) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  int status = 1;
  try {
    const RecordFile file = cache.get(key, tokenizer, build);
    status = file.size() == 1 && file[0].size() == 1 && file[0][0] == 7 ? 0 : 2;
  } catch (const std::exception&) {}
  ::_exit(status);
}

int status_of(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

TEST_F(TokenCaches, OfSeveralProcessesOneMakesAndOthersWait) {
  const auto log = scratch_.path() / "log";
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    children.push_back(in_a_process(TokenCache(scratch_.path() / "cache"), {source_, "kind", ""}, *tokenizer_,
                                    [&](RecordWriter& writer) {
                                      std::ofstream(log, std::ios::app) << "made\n";
                                      std::this_thread::sleep_for(std::chrono::milliseconds(100));
                                      writer.append(Record{7});
                                    }));
  }
  for (const pid_t child : children) EXPECT_EQ(status_of(child), 0);
  EXPECT_EQ(std::filesystem::file_size(log), 5U) << "made once";
}

TEST_F(TokenCaches, AMakerThatDiesHoldsNobodyUp) {
  const auto begun = scratch_.path() / "begun";
  const pid_t child = in_a_process(cache_, {source_, "kind", ""}, *tokenizer_, [&](RecordWriter& writer) {
    writer.append(Record(1 << 20, 1));
    std::ofstream(begun) << "x";
    ::pause();
  });
  while (!std::filesystem::exists(begun)) std::this_thread::yield();
  std::thread killer([child] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ::kill(child, SIGKILL);
  });
  EXPECT_THAT(get(), ElementsAre(1, 2, 3));
  killer.join();
  status_of(child);
  EXPECT_THAT(files(".tmp"), IsEmpty());
  ASSERT_EQ(said_.size(), 2U);
  EXPECT_THAT(said_[0], HasSubstr("waiting for it"));
}

}  // namespace
}  // namespace rueda::examples
