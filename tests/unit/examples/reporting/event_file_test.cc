// SPDX-License-Identifier: Apache-2.0
// The bytes of TensorBoard event files, checked record by record.
#include "examples/lib/reporting/event_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

namespace rueda::examples {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// A folder that goes away with the test.
class EventFileTest : public ::testing::Test {
 protected:
  EventFileTest() : folder_(fs::temp_directory_path() / ("rueda_events_" + std::to_string(getpid()))) {}
  ~EventFileTest() override { fs::remove_all(folder_); }

  fs::path folder_;
};

template <class T>
T number_at(const std::string& bytes, std::size_t offset) {
  T value{};
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

std::uint32_t masked(const std::string& bytes) { return std::rotr(crc32c(bytes), 15) + 0xa282ead8u; }

// The payloads of all records, checking lengths and checksums.
std::vector<std::string> records_of(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  const std::string bytes = text.str();
  std::vector<std::string> records;
  for (std::size_t offset = 0; offset < bytes.size();) {
    const auto length = number_at<std::uint64_t>(bytes, offset);
    EXPECT_EQ(number_at<std::uint32_t>(bytes, offset + 8), masked(bytes.substr(offset, 8)));
    records.push_back(bytes.substr(offset + 12, length));
    EXPECT_EQ(number_at<std::uint32_t>(bytes, offset + 12 + length), masked(records.back()));
    offset += 16 + length;
  }
  return records;
}

TEST(Crc32c, CheckValue) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(""), 0u);
}

TEST_F(EventFileTest, StartsWithTheVersionAndIsReadableAfterEveryScalar) {
  EventFile file(folder_ / "a" / "b", 300);
  EXPECT_THAT(file.path().filename().string(), HasSubstr("tfevents"));
  ASSERT_THAT(records_of(file.path()), SizeIs(2));
  EXPECT_THAT(records_of(file.path()).front(), HasSubstr("brain.Event:2"));
  // Fields of Event: 2, step 300; 7, a SessionLog whose field 1 is START, 1.
  EXPECT_THAT(records_of(file.path())[1], HasSubstr(std::string("\x10\xac\x02\x3a\x02\x08\x01", 7)));

  file.add_scalar("loss", 0.5, 7);
  file.add_scalar("f1", -2.0, 1'000'000'007);
  const auto records = records_of(file.path());
  ASSERT_THAT(records, SizeIs(4));
  EXPECT_THAT(records[2], HasSubstr("loss"));
  EXPECT_THAT(records[2], HasSubstr(std::string("\x15\x00\x00\x00\x3f", 5)));  // field 2, fixed 32 bits, 0.5f
  EXPECT_THAT(records[2], HasSubstr(std::string("\x10\x07", 2)));              // field 2 of Event: step 7
  EXPECT_THAT(records[3], HasSubstr("f1"));
}

TEST_F(EventFileTest, ALaterFileSortsBehindAndHidesWhatItBeginsAnew) {
  EventFile first(folder_, 0);
  for (const int step : {4, 8, 12}) first.add_scalar("f1", step, step);
  EXPECT_TRUE(shows_scalar(folder_, "f1", 8));
  EXPECT_FALSE(shows_scalar(folder_, "f1", 7));
  EXPECT_FALSE(shows_scalar(folder_, "f", 8));
  const EventFile second(folder_, 9);
  EXPECT_LT(first.path(), second.path()) << "although made in the same second";
  EXPECT_TRUE(shows_scalar(folder_, "f1", 8));
  EXPECT_FALSE(shows_scalar(folder_, "f1", 12));
  EventFile third(folder_, 9);
  third.add_scalar("f1", 1, 12);
  EXPECT_TRUE(shows_scalar(folder_, "f1", 12));
  std::ofstream(third.path(), std::ios::app) << "cut off";
  EXPECT_TRUE(shows_scalar(folder_, "f1", 12));
  EXPECT_FALSE(shows_scalar(folder_ / "absent", "f1", 12));
}

TEST_F(EventFileTest, AClockThatIsLateChangesNothing) {
  fs::create_directories(folder_);
  const fs::path newest = folder_ / "events.out.tfevents.9999999998.other.7";
  std::ofstream(newest) << "";
  std::ofstream(folder_ / "events.out.tfevents.notes") << "";
  EXPECT_THAT(EventFile(folder_, 0).path().filename().string(), HasSubstr("tfevents.9999999999."));
}

TEST_F(EventFileTest, ErrorNamesTheFolder) {
  std::ofstream(folder_.string()) << "a file in the way";
  try {
    EventFile file(folder_ / "below", 0);
    FAIL() << "no exception";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr((folder_ / "below").string()));
  }
}

}  // namespace
}  // namespace rueda::examples
