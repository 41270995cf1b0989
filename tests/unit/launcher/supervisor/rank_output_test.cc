// SPDX-License-Identifier: Apache-2.0
// Lines of several ranks: whole, with their prefix, none lost.
#include "launcher/supervisor/rank_output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <termios.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <thread>

#include "launcher/cli/options.h"
#include "launcher/system/pseudo_terminal.h"

namespace rueda {
namespace {

std::string all_of(Pipe& pipe) {
  pipe.write_end.close();
  std::string text;
  for (std::string_view piece; !(piece = read_some(pipe.read_end.number())).empty();) text += piece;
  return text;
}

const Label kLabel = [](int rank) { return "[" + std::to_string(rank) + "] "; };

// All has been written, or cannot be: the error.
std::error_code all_written(RankOutput& output) {
  output.finish();
  while (output.writer().held() > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return output.writer().error();
}

TEST(RankOutput, PiecesBecomeWholeLines) {
  Pipe pipe = make_pipe();
  RankOutput output(pipe.write_end.number(), 2, kLabel, make_writer_news());
  output.show(0, "a");
  output.show(1, "b1\nb2");
  output.show(0, "A\n\n");
  output.show(0, "last");
  EXPECT_EQ(all_written(output), std::error_code());
  EXPECT_EQ(all_of(pipe), "[1] b1\n[0] aA\n[0] \n[0] last\n[1] b2\n");
}

TEST(RankOutput, WithoutPrefixNothingIsAdded) {
  Pipe pipe = make_pipe();
  RankOutput output(pipe.write_end.number(), 1, {}, make_writer_news());
  output.show(0, "x\ny");
  EXPECT_EQ(all_written(output), std::error_code());
  EXPECT_EQ(all_of(pipe), "x\ny");
}

TEST(RankOutput, BothStreamsOfATerminalAreOneText) {
  Pipe pipe = make_pipe();
  RankOutput output(pipe.write_end.number(), 2, kLabel, make_writer_news());
  RankOutput errors = output.beside();
  output.show(0, "name? ");
  errors.show(1, "warning\n");
  output.show_due(LineMixer::Time::max());
  errors.show(0, "oops\n");
  output.show(0, "Bob\n");
  EXPECT_EQ(all_written(output), std::error_code());
  EXPECT_EQ(all_of(pipe), "[1] warning\n[0] name? \n[0] oops\n[0] Bob\n");
}

TEST(RankOutput, ATerminalInRawModeNeedsBothEndsOfALineAndAPipeDoesNot) {
  PseudoTerminal terminal(TerminalSize{});
  Pipe pipe = make_pipe();
  RankOutput shown(terminal.programs_end(), 1, {}, make_writer_news());
  RankOutput piped(pipe.write_end.number(), 1, {}, make_writer_news());
  termios raw{};
  ASSERT_EQ(::tcgetattr(terminal.programs_end(), &raw), 0);
  ::cfmakeraw(&raw);
  ASSERT_EQ(::tcsetattr(terminal.programs_end(), TCSANOW, &raw), 0);
  for (RankOutput* output : {&shown, &piped}) {
    output->use(LineEnd::both);
    output->show(0, "x\n");
    output->show_as_it_is(0, "y\n");
    EXPECT_EQ(all_written(*output), std::error_code());
  }
  EXPECT_EQ(read_some(terminal.descriptor()), "x\r\ny\n");
  EXPECT_EQ(all_of(pipe), "x\ny\n");
}

TEST(RankOutput, ALineOverTheLimitComesInParts) {
  Pipe pipe = make_pipe();
  std::string written;
  std::thread reader([&] {
    for (std::string_view piece; !(piece = read_some(pipe.read_end.number())).empty();) written += piece;
  });
  RankOutput output(pipe.write_end.number(), 1, {}, make_writer_news());
  std::string line(LineMixer::kLongestHeld * 3 / 2, 'x');
  output.show(0, line + "\n");
  EXPECT_EQ(all_written(output), std::error_code());
  pipe.write_end.close();
  reader.join();
  EXPECT_EQ(written, line + "\n");
}

TEST(RankOutput, CopiesForEachRank) {
  std::string folder = ::testing::TempDir() + "rueda_rank_output_" + std::to_string(::getpid());
  Pipe pipe = make_pipe();
  {
    RankOutput output(pipe.write_end.number(), 11, kLabel, make_writer_news());
    output.keep_copies(folder, "stdout");
    output.copy(10, "ten, no end");
    while (output.copies().held() > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(output.copies().error(), std::error_code());
  }
  std::ifstream file(folder + "/rank.10/stdout");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), "ten, no end");
  EXPECT_TRUE(std::filesystem::exists(folder + "/rank.00/stdout")) << "padded, so that names sort";
  RankOutput other(pipe.write_end.number(), 1, kLabel, make_writer_news());
  EXPECT_THROW(other.keep_copies("/dev/null/folder", "stdout"), UsageError);
  std::filesystem::remove_all(folder);
}

TEST(RankOutput, AReaderThatIsGoneIsReported) {
  ::signal(SIGPIPE, SIG_IGN);
  Pipe pipe = make_pipe();
  RankOutput output(pipe.write_end.number(), 1, kLabel, make_writer_news());
  pipe.read_end.close();
  output.show(0, "x\n");
  EXPECT_EQ(all_written(output), std::errc::broken_pipe);
}

TEST(RankOutput, AFullDiskIsReported) {
  const Descriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  RankOutput output(full.number(), 1, kLabel, make_writer_news());
  output.show(0, "without an end");
  output.flush();
  EXPECT_EQ(output.writer().held(), 0u) << "it is held back";
  EXPECT_EQ(all_written(output), std::errc::no_space_on_device);
}

TEST(OutputWriter, AReaderThatPausesKeepsNobodyWaiting) {
  Pipe pipe = make_pipe();
  OutputWriter writer(make_writer_news());
  const std::string text(1 << 20, 'x');
  for (int i = 0; i < 16; ++i) writer.add(pipe.write_end.number(), text);
  EXPECT_GE(writer.held(), OutputWriter::kMuch);
  const auto now = std::chrono::steady_clock::now();
  EXPECT_FALSE(writer.stuck(now, std::chrono::hours(1)));
  EXPECT_TRUE(writer.stuck(now + std::chrono::hours(2), std::chrono::hours(1)));
  std::size_t count = 0;
  while (count < 16 * text.size()) count += read_some(pipe.read_end.number()).size();
  while (writer.held() > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_FALSE(writer.stuck(now + std::chrono::hours(2), std::chrono::hours(1))) << "nothing is held";
}

TEST(OutputWriter, AFileThatFailsDoesNotKeepOthersWaiting) {
  const Descriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  Pipe pipe = make_pipe();
  OutputWriter writer(make_writer_news());
  writer.add(full.number(), "lost");
  writer.add(pipe.write_end.number(), "kept");
  while (writer.held() > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  writer.add(full.number(), "lost, too");
  EXPECT_EQ(writer.held(), 0u);
  EXPECT_EQ(writer.error(), std::errc::no_space_on_device);
  EXPECT_EQ(read_some(pipe.read_end.number()), "kept");
}

}  // namespace
}  // namespace rueda
