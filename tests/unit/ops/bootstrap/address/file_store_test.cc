// SPDX-License-Identifier: Apache-2.0
// Values in files: whole, one's own, and replaced at once.
#include "ops/bootstrap/address/file_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/base/error.h"

namespace rueda {
namespace {

using testing::HasSubstr;

// A folder that goes with the test.
class FileStoreTest : public testing::Test {
 protected:
  ~FileStoreTest() override { std::filesystem::remove_all(folder_); }

  std::string error_of_get(const std::string& key) {
    try {
      FileStore(folder_).get(key);
    } catch (const BackendError& error) {
      return error.what();
    }
    return "";
  }

  std::string folder_ = testing::TempDir() + "file_store_test_" + std::to_string(::getpid());
};

TEST_F(FileStoreTest, AValueIsThereOnceItIsSet) {
  FileStore writer(folder_), reader(folder_);
  EXPECT_FALSE(reader.get("job/root"));
  writer.set("job/root", "first");
  EXPECT_EQ(reader.get("job/root"), "first");
  writer.set("job/root", "second");
  EXPECT_EQ(reader.get("job/root"), "second");
  reader.remove("job/root");
  EXPECT_FALSE(writer.get("job/root"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(FileStoreTest, OnlyItsOwnerReadsIt) {
  FileStore(folder_).set("key", "value");
  struct stat about {};
  ASSERT_EQ(::stat((folder_ + "/key").c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777U, 0600U);
  ASSERT_EQ(::stat(folder_.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777U, 0700U);
}

TEST_F(FileStoreTest, AFileThatIsNotWholeIsNoValueYet) {
  FileStore store(folder_);
  std::ofstream(folder_ + "/key") << "half";
  EXPECT_FALSE(store.get("key"));
}

TEST_F(FileStoreTest, StrangeThingsAtItsPathAreErrors) {
  FileStore store(folder_);
  std::filesystem::create_symlink("/etc/hostname", folder_ + "/link");
  EXPECT_THAT(error_of_get("link"), HasSubstr("cannot read"));
  ASSERT_EQ(::mkfifo((folder_ + "/pipe").c_str(), 0600), 0);
  EXPECT_THAT(error_of_get("pipe"), HasSubstr("is no file"));
  std::ofstream(folder_ + "/foreign") << "value\n";
  if (::chown((folder_ + "/foreign").c_str(), 65534, 65534) == 0) {
    EXPECT_THAT(error_of_get("foreign"), HasSubstr("belongs to another user"));
  }
  EXPECT_THROW(FileStore("/dev/null/folder"), BackendError);
  EXPECT_THROW(FileStore("/dev/null"), BackendError);
}

TEST_F(FileStoreTest, AFolderInWhichOthersMayWriteIsRefused) {
  std::filesystem::create_directory(folder_);
  for (const auto mode : {0777, 0770}) {
    ASSERT_EQ(::chmod(folder_.c_str(), static_cast<mode_t>(mode)), 0);
    EXPECT_THROW(FileStore store(folder_), BackendError);
  }
  ASSERT_EQ(::chmod(folder_.c_str(), 0755), 0);
  EXPECT_NO_THROW(FileStore store(folder_));
}

}  // namespace
}  // namespace rueda
