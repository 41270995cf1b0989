// SPDX-License-Identifier: Apache-2.0
// Lines for a stream that nobody reads.
#include "core/base/log/line_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <future>
#include <regex>
#include <string>
#include <vector>

#include "core/base/log.h"
#include "tests/support/sanitized.h"

namespace rueda {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

// Purpose: both ends of a pipe.
class Pipe {
 public:
  explicit Pipe(int bytes = 4096) {
    if (::pipe2(ends_.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    ::fcntl(ends_[1], F_SETPIPE_SZ, bytes);
  }
  ~Pipe() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  int into() const { return ends_[1]; }
  // Reads until `last` has come.
  std::string read_to(const std::string& last) const {
    std::string all;
    std::array<char, 4096> some{};
    while (all.find(last) == std::string::npos) {
      const ssize_t count = ::read(ends_[0], some.data(), some.size());
      if (count <= 0) break;
      all.append(some.data(), static_cast<std::size_t>(count));
    }
    return all;
  }

 private:
  std::array<int, 2> ends_{};
};

void write(LineWriter& writer, const std::string& line) {
  writer.add(line);
  writer.wait_a_moment();
}

TEST(LineWriter, LinesComeInOrder) {
  const Pipe pipe(1 << 16);  // a pipe is ready while it has an empty page
  LineWriter writer(pipe.into());
  EXPECT_TRUE(writer.flush(seconds(0))) << "there is none";
  for (int line = 0; line < 100; ++line) write(writer, fmt::format("{}\n", line));
  EXPECT_TRUE(writer.flush(seconds(60)));
  EXPECT_THAT(pipe.read_to("99\n"), testing::StartsWith("0\n1\n2\n3\n"));
}

TEST(LineWriter, APipeThatNobodyReadsStopsNobodyAndWhatIsMissingIsCounted) {
  const Pipe pipe;
  LineWriter writer(pipe.into());
  constexpr int kLines = 2000;
  for (int line = 0; line < kLines; ++line) write(writer, fmt::format("line {:04} {:*>1000}\n", line, ""));
  write(writer, "the fatal one\n");  // all calls have returned, and nothing was read
  EXPECT_FALSE(writer.flush(std::chrono::milliseconds(1)));
  const std::string read = pipe.read_to("the fatal one\n");
  EXPECT_TRUE(writer.flush(seconds(60)));
  std::vector<int> numbers;
  int missing = 0;
  const std::regex pattern("line ([0-9]{4}) |rueda: ([0-9]+) lines are missing here");
  for (std::sregex_iterator found(read.begin(), read.end(), pattern), end; found != end; ++found) {
    if ((*found)[2].matched) {
      EXPECT_EQ(missing, 0) << "it is told once";
      missing = std::stoi((*found)[2]);
      EXPECT_FALSE(numbers.empty()) << "the oldest line was on its way";
    } else {
      numbers.push_back(std::stoi((*found)[1]));
    }
  }
  EXPECT_GT(missing, 1000);
  EXPECT_EQ(missing + static_cast<int>(numbers.size()), kLines);
  EXPECT_EQ(numbers.back(), kLines - 1);
  EXPECT_TRUE(std::ranges::is_sorted(numbers));
}

TEST(LineWriter, EndsWhileThePipeIsFull) {
  const Pipe pipe;
  {
    LineWriter writer(pipe.into());
    write(writer, std::string(100'000, '*') + "\n");
    EXPECT_FALSE(writer.flush(std::chrono::milliseconds(1)));
  }
  EXPECT_THAT(pipe.read_to("*"), HasSubstr("*"));
}

TEST(LineWriter, WritesInAForkedChild) {
  if (kThreadSanitized) GTEST_SKIP() << "ThreadSanitizer ends a child that starts a thread";
  testing::internal::CaptureStderr();
  log(LogLevel::error, "in the parent");  // its thread is not in the child
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    log(LogLevel::error, "in the child");
    ::_exit(flush_stderr(seconds(30)) ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(flush_stderr(seconds(30)));
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, testing::AllOf(HasSubstr("in the parent\n"), HasSubstr("in the child\n")));
}

}  // namespace
}  // namespace rueda
