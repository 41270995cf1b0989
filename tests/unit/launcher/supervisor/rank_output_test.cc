// SPDX-License-Identifier: Apache-2.0
// Lines of several ranks: whole, with their prefix, none lost.
#include "launcher/supervisor/rank_output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <thread>

#include "launcher/cli/options.h"

namespace rueda {
namespace {

std::string all_of(Pipe& pipe) {
  pipe.write_end.close();
  std::string text;
  for (std::string_view piece; !(piece = read_some(pipe.read_end.number())).empty();) text += piece;
  return text;
}

TEST(RankOutput, PiecesBecomeWholeLines) {
  Pipe pipe = make_pipe();
  RankOutput output(pipe.write_end.number(), 2, true);
  output.add(0, "a");
  output.add(1, "b1\nb2");
  output.add(0, "A\n\n");
  output.add(0, "last");
  EXPECT_EQ(output.finish(), std::error_code());
  EXPECT_EQ(all_of(pipe), "[1] b1\n[0] aA\n[0] \n[0] last\n[1] b2\n");
}

TEST(RankOutput, WithoutPrefixNothingIsAdded) {
  Pipe pipe = make_pipe();
  RankOutput output(pipe.write_end.number(), 1, false);
  output.add(0, "x\ny");
  EXPECT_EQ(output.finish(), std::error_code());
  EXPECT_EQ(all_of(pipe), "x\ny");
}

TEST(RankOutput, BothStreamsOfATerminalAreOneText) {
  Pipe pipe = make_pipe();
  RankOutput output(pipe.write_end.number(), 2, true);
  RankOutput errors = output.beside();
  output.add(0, "name? ");
  errors.add(1, "warning\n");
  output.show_due(LineMixer::Time::max());
  errors.add(0, "oops\n");
  output.add(0, "Bob\n");
  EXPECT_EQ(output.finish(), std::error_code());
  EXPECT_EQ(all_of(pipe), "[1] warning\n[0] name? \n[0] oops\n[0] Bob\n");
}

TEST(RankOutput, ALineOverTheLimitComesInParts) {
  Pipe pipe = make_pipe();
  std::string written;
  std::thread reader([&] {
    for (std::string_view piece; !(piece = read_some(pipe.read_end.number())).empty();) written += piece;
  });
  RankOutput output(pipe.write_end.number(), 1, false);
  std::string line(LineMixer::kLongestHeld * 3 / 2, 'x');
  output.add(0, line + "\n");
  EXPECT_EQ(output.finish(), std::error_code());
  pipe.write_end.close();
  reader.join();
  EXPECT_EQ(written, line + "\n");
}

TEST(RankOutput, CopiesForEachRank) {
  std::string folder = ::testing::TempDir() + "rueda_rank_output_" + std::to_string(::getpid());
  Pipe pipe = make_pipe();
  {
    RankOutput output(pipe.write_end.number(), 11, true);
    output.keep_copies(folder, "stdout");
    output.add(10, "ten, no end");
    output.finish();
  }
  std::ifstream file(folder + "/rank.10/stdout");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), "ten, no end");
  EXPECT_TRUE(std::filesystem::exists(folder + "/rank.00/stdout")) << "padded, so that names sort";
  RankOutput other(pipe.write_end.number(), 1, true);
  EXPECT_THROW(other.keep_copies("/dev/null/folder", "stdout"), UsageError);
  std::filesystem::remove_all(folder);
}

TEST(RankOutput, AReaderThatIsGoneIsReported) {
  ::signal(SIGPIPE, SIG_IGN);
  Pipe pipe = make_pipe();
  RankOutput output(pipe.write_end.number(), 1, true);
  pipe.read_end.close();
  output.add(0, "x\n");
  EXPECT_EQ(output.flush(), std::errc::broken_pipe);
}

TEST(RankOutput, AFullDiskIsReported) {
  const Descriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  RankOutput output(full.number(), 1, true);
  output.add(0, "without an end");
  EXPECT_EQ(output.flush(), std::error_code()) << "it is held back";
  EXPECT_EQ(output.finish(), std::errc::no_space_on_device);
}

}  // namespace
}  // namespace rueda
