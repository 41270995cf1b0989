// SPDX-License-Identifier: Apache-2.0
#include "launcher/page/jobs_folder.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <signal.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "core/base/system/descriptor.h"
#include "tests/unit/launcher/stacks/other_process.h"

namespace rueda {
namespace {

namespace fs = std::filesystem;

class JobsFolder : public ::testing::Test {
 protected:
  JobsFolder() {
    std::string name = "/tmp/rueda_test_XXXXXX";
    runtime_ = ::mkdtemp(name.data());
    ::setenv("XDG_RUNTIME_DIR", runtime_.c_str(), 1);
  }
  ~JobsFolder() override {
    ::unsetenv("XDG_RUNTIME_DIR");
    fs::remove_all(runtime_);
  }
  std::string runtime_;
};

TEST_F(JobsFolder, IsMadeForThisUserAlone) {
  EXPECT_EQ(jobs_folder(), runtime_ + "/rueda");
  struct stat about {};
  ASSERT_EQ(::stat((runtime_ + "/rueda").c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0700);
}

TEST_F(JobsFolder, OneThatOthersMayEnterIsNotUsed) {
  ::mkdir((runtime_ + "/rueda").c_str(), 0700);
  ::chmod((runtime_ + "/rueda").c_str(), 0755);
  EXPECT_FALSE(jobs_folder());
}

TEST_F(JobsFolder, ALinkIsNotUsed) {
  ::mkdir((runtime_ + "/other").c_str(), 0700);
  ASSERT_EQ(::symlink((runtime_ + "/other").c_str(), (runtime_ + "/rueda").c_str()), 0);
  EXPECT_FALSE(jobs_folder());
}

TEST_F(JobsFolder, ARuntimeFolderOfEverybodyIsPassedOver) {
  ::chmod(runtime_.c_str(), 0777);
  EXPECT_NE(jobs_folder().value_or(""), runtime_ + "/rueda");
}

// A job of cron has no XDG_RUNTIME_DIR, one of a shell has.
TEST_F(JobsFolder, OfAnotherProcessIsNamedByItsEnvironment) {
  ASSERT_TRUE(jobs_folder());
  const auto run = [](const char* runtime) {
    const pid_t child = ::fork();
    if (child != 0) return child;
    const std::string variable = std::string("XDG_RUNTIME_DIR=") + runtime;
    const char* words[] = {"/bin/sleep", "30", nullptr};
    const char* variables[] = {"A=b", variable.c_str(), nullptr};
    ::execve(words[0], const_cast<char**>(words), const_cast<char**>(variables));
    ::_exit(1);
  };
  const pid_t child = run(runtime_.c_str());
  ::unsetenv("XDG_RUNTIME_DIR");
  EXPECT_TRUE(comes([&] { return jobs_folder_of(child) == runtime_ + "/rueda"; }));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(jobs_folder_of(0x7ffffff0));
}

TEST_F(JobsFolder, NamesTheJobsAndRemovesThoseThatAreGone) {
  const std::string folder = jobs_folder().value();
  constexpr int kNobody = 0x7ffffff0;
  for (const pid_t process : {::getpid(), kNobody}) std::ofstream(socket_of_job(folder, process)) << "";
  std::ofstream(folder + "/x.sock") << "";
  constexpr int kOfContainer = kNobody - 1;
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  socket_of_job(folder, kOfContainer).copy(name.sun_path, sizeof name.sun_path - 1);
  const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM, 0));
  ASSERT_EQ(::bind(socket.number(), reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
  ASSERT_EQ(::listen(socket.number(), 1), 0);
  EXPECT_EQ(jobs_in(folder), (std::vector<pid_t>{::getpid(), kOfContainer}));
  EXPECT_FALSE(fs::exists(socket_of_job(folder, kNobody)));
}

}  // namespace
}  // namespace rueda
