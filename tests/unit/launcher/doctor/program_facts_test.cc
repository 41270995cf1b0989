// SPDX-License-Identifier: Apache-2.0
// PROGRAM and its Python; commands within a time.
#include "launcher/doctor/program_facts.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "launcher/system/descriptor.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

class ProgramFacts : public testing::Test {
 protected:
  ProgramFacts() {
    std::string path = testing::TempDir() + "programXXXXXX";
    folder_ = ::mkdtemp(path.data());
  }
  ~ProgramFacts() override { fs::remove_all(folder_); }

  std::string script(const std::string& name, const std::string& text) {
    const fs::path path = folder_ / name;
    std::ofstream(path) << text;
    fs::permissions(path, fs::perms::owner_all);
    return path.string();
  }

  fs::path folder_;
};

TEST_F(ProgramFacts, PythonIsThatOfTheScript) {
  EXPECT_EQ(python_of("/usr/bin/python3.11"), "/usr/bin/python3.11");
  EXPECT_EQ(python_of(script("a", "#!/opt/bin/python3 -u\nprint()\n")), "/opt/bin/python3");
  EXPECT_EQ(python_of(script("b", "#!/usr/bin/env python3\n")), "python3");
  EXPECT_EQ(python_of(script("c", "#!/bin/sh\n")), "");
  EXPECT_EQ(python_of(script("d",
                             "\x7f"
                             "ELF")),
            "");
  EXPECT_EQ(python_of("/no/such/file"), "");
}

TEST_F(ProgramFacts, ARunHasItsOutputAndItsStatus) {
  const ProgramOutput done = output_within({"/bin/sh", "-c", "echo a; echo b >&2; exit 3"}, 30s);
  EXPECT_EQ(done.text, "a\nb\n");
  EXPECT_EQ(WEXITSTATUS(done.status), 3);
  EXPECT_FALSE(done.is_late);
  EXPECT_EQ(WEXITSTATUS(output_within({"/no/such/program"}, 30s).status), 127);
  EXPECT_TRUE(output_within({"/bin/sh", "-c", "echo a; sleep 60"}, 0s).is_late);
}

// What a command has left in its group ends with it.
TEST_F(ProgramFacts, ARunEndsWithItsLineAndLeavesNothing) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  Descriptor line(ends[0]), doctor(ends[1]);
  std::jthread closer([&] {
    std::this_thread::sleep_for(200ms);
    doctor.close();
  });
  const ProgramOutput done =
      output_within({"/bin/sh", "-c", "sleep 61 & echo $!; sleep 61"}, 60s, line.number());
  EXPECT_TRUE(done.is_late);
  const pid_t child = std::atoi(done.text.c_str());
  ASSERT_GT(child, 0);
  const auto has_ended = [&] {
    std::ifstream stat("/proc/" + std::to_string(child) + "/stat");
    std::string text;
    std::getline(stat, text);
    return text.empty() || text.find(") Z") != std::string::npos;
  };
  for (int i = 0; i < 500 && !has_ended(); ++i) std::this_thread::sleep_for(10ms);
  EXPECT_TRUE(has_ended());
}

TEST_F(ProgramFacts, WhatIsMissingIsNamed) {
  EXPECT_EQ(software_facts({}).program_problem, "");
  EXPECT_FALSE(software_facts({}).rueda.empty());
  EXPECT_EQ(software_facts({"/bin/sh"}).program_problem, "");
  EXPECT_EQ(software_facts({"/no/such"}).program_problem, "there is no program '/no/such'");
}

// In place of Python: what it prints decides.
TEST_F(ProgramFacts, ThePythonTellsItsVersions) {
  const std::string good = script(
      "python3", "#!/bin/sh\nprintf 'python 3.11.2\\ntorch 2.9.1\\nrueda not installed\\nbuilt 2.9.0\\n'\n");
  const agents::SoftwareFacts facts = software_facts({good, script("train.py", "")});
  EXPECT_EQ(facts.python, "3.11.2");
  EXPECT_EQ(facts.python_torch, "2.9.1");
  EXPECT_EQ(facts.python_rueda, agents::kNotInstalled);
  EXPECT_EQ(facts.python_built, "2.9.0");
  EXPECT_EQ(facts.python_problem, "");
  EXPECT_EQ(software_facts({good, "no.py"}).program_problem, "there is no file 'no.py'");
  const std::string bad = script("python3-bad", "#!/bin/sh\necho 'Illegal instruction'; exit 4\n");
  EXPECT_NE(software_facts({bad}).python_problem.find("ended with status 4: Illegal instruction"),
            std::string::npos);
}

}  // namespace
}  // namespace rueda
