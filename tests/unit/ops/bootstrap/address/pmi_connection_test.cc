// SPDX-License-Identifier: Apache-2.0
// PMI-1 and PMI-2 as process managers answer them, and as one that is broken does.
#include "ops/bootstrap/address/pmi_connection.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/base/system/pmi_line.h"

namespace rueda {
namespace {

using testing::HasSubstr;

enum class Version { pmi1, pmi2_of_slurm, pmi2_of_hydra };
constexpr std::array kVersions{Version::pmi1, Version::pmi2_of_slurm, Version::pmi2_of_hydra};

// Purpose: a process manager of some processes, on a thread each that ends when they have closed their
// sockets.
class Manager {
 public:
  using Change = std::function<std::string(std::string)>;

  // `change` may replace what is sent, the length before a message of PMI-2 included.
  explicit Manager(int size, Version version = Version::pmi1, Change change = nullptr)
      : version_(version), change_(std::move(change)), fresh_start_(static_cast<std::size_t>(size), true) {
    for (int rank = 0; rank < size; ++rank) {
      std::array<int, 2> ends{};
      EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
      processes.push_back({ends[0], rank, size, version == Version::pmi1 ? "" : "17.0"});
      own_.emplace_back(ends[1]);
    }
    for (int rank = 0; rank < size; ++rank) threads_.emplace_back([this, rank] { serve(rank); });
  }
  ~Manager() {
    for (std::thread& thread : threads_) thread.join();
  }

  std::vector<PmiProcess> processes;

 private:
  void serve(int rank) {
    std::string heard;
    std::array<char, 1024> buffer{};
    for (ssize_t count; (count = ::recv(own_[rank].number(), buffer.data(), buffer.size(), 0)) > 0;) {
      heard.append(buffer.data(), static_cast<std::size_t>(count));
      for (std::string message; take(rank, heard, message);) hear(rank, message);
    }
    own_[rank].close();
  }

  bool speaks_lines(int rank) const {
    return version_ == Version::pmi1 || fresh_start_[static_cast<std::size_t>(rank)];
  }

  bool take(int rank, std::string& heard, std::string& message) {
    const bool lines = speaks_lines(rank);
    const std::size_t begin = lines ? 0 : 6;
    const std::size_t end = lines              ? heard.find('\n')
                            : heard.size() < 6 ? std::string::npos
                                               : begin + std::stoul(heard.substr(0, 6));
    if (end == std::string::npos || end > heard.size()) return false;
    message = heard.substr(begin, end - begin);
    heard.erase(0, end + (lines ? 1 : 0));
    return true;
  }

  void say(int rank, std::string message) {
    if (speaks_lines(rank)) {
      message += "\n";
    } else {
      const std::size_t length = message.size();
      message =
          (version_ == Version::pmi2_of_slurm ? fmt::format("{:<6}", length) : fmt::format("{:>6}", length)) +
          message;
    }
    if (change_) message = change_(message);
    ::send(own_[rank].number(), message.data(), message.size(), MSG_NOSIGNAL);
  }

  void hear(int rank, const std::string& message) {
    std::lock_guard lock(mutex_);
    const char separator = speaks_lines(rank) ? ' ' : ';';
    const auto field = [&](std::string_view name) {
      return std::string(pmi_field(message, name, separator));
    };
    const std::string command = field("cmd");
    if (command == "init") {
      say(rank,
          fmt::format("cmd=response_to_init rc=0 pmi_version={} pmi_subversion=0", field("pmi_version")));
      EXPECT_EQ(field("pmi_version"), version_ == Version::pmi1 ? "1" : "2");
      fresh_start_[static_cast<std::size_t>(rank)] = false;
    } else if (command == "put" || command == "kvs-put") {
      fresh_[field("key")] = field("value");
      say(rank, command == "put" ? "cmd=put_result rc=0" : "cmd=kvs-put-response;rc=0;");
    } else if (command == "get" || command == "kvs-get") {
      const auto found = values_.find(field("key"));
      const bool none = found == values_.end();
      if (command == "get") {
        say(rank, none ? "cmd=get_result rc=1" : "cmd=get_result rc=0 value=" + found->second);
      } else {
        EXPECT_EQ(field("jobid"), "17.0");
        say(rank, none ? "cmd=kvs-get-response;rc=0;found=FALSE;"
                       : "cmd=kvs-get-response;rc=0;found=TRUE;value=" + found->second + ";");
      }
    } else if (command == "barrier_in" || command == "kvs-fence") {
      end_barrier_with_the_last();
    } else {
      say(rank, answer_to(rank, command));
    }
  }

  std::string answer_to(int rank, const std::string& command) {
    if (command == "get_my_kvsname") return "cmd=my_kvsname rc=0 kvsname=kvs_1";
    if (command == "finalize")
      return version_ == Version::pmi1 ? "cmd=finalize_ack rc=0" : "cmd=finalize-response;rc=0;";
    if (command == "job-getid") return "cmd=job-getid-response;rc=0;jobid=17.0;";
    EXPECT_EQ(command, "fullinit");
    return fmt::format("cmd=fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank={};size={};appnum=-1;",
                       rank, own_.size());
  }

  void end_barrier_with_the_last() {
    if (++waiting_ < own_.size()) return;
    waiting_ = 0;
    values_ = fresh_;  // seen only after the barrier, as Slurm does
    for (std::size_t each = 0; each < own_.size(); ++each)
      say(static_cast<int>(each),
          version_ == Version::pmi1 ? "cmd=barrier_out tag=0" : "cmd=kvs-fence-response;rc=0;");
  }

  const Version version_;
  const Change change_;
  std::vector<Descriptor> own_;
  std::vector<char> fresh_start_;  // of each process: it has not been greeted, and speaks lines
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::map<std::string, std::string> fresh_, values_;
  std::size_t waiting_ = 0;
};

std::string error_of(const PmiProcess& process) {
  try {
    PmiConnection connection(process);
  } catch (const BackendError& error) {
    return error.what();
  }
  return "";
}

TcpEndpoint endpoint_of_job(int job) { return {{}, {{"127.0.0.1", static_cast<std::uint16_t>(4000 + job)}}}; }

void exchange_addresses(const PmiProcess& process) {
  const auto connection = std::make_shared<PmiConnection>(process);
  for (const int job : {0, 1, 2}) {
    const auto address = address_by_pmi(connection);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    std::optional<TcpEndpoint> found;
    if (process.rank == 0) address->publish(endpoint_of_job(job));
    while (std::chrono::steady_clock::now() < end) {
      if (process.rank == 0 ? address->settled() : (found = address->look()).has_value()) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (process.rank != 0) {
      EXPECT_EQ(found, endpoint_of_job(job));
    }
  }
}

TEST(PmiConnection, RankZeroPublishesAndAllOthersFindIt) {
  for (const Version version : kVersions) {
    Manager manager(5, version);
    std::vector<std::thread> threads;
    for (const PmiProcess& process : manager.processes) threads.emplace_back(exchange_addresses, process);
    for (std::thread& thread : threads) thread.join();
  }
}

TEST(PmiConnection, AProcessThatNeverComesLeavesNobodyWaiting) {
  for (const Version version : kVersions) {
    Manager manager(2, version);
    {
      const auto connection = std::make_shared<PmiConnection>(manager.processes[0]);
      const auto address = address_by_pmi(connection);
      address->publish(endpoint_of_job(0));
      EXPECT_FALSE(address->settled());
      EXPECT_THAT(address->in_words(), HasSubstr("until every process has called init()"));
      EXPECT_THROW(address_by_pmi(connection)->publish(endpoint_of_job(1)), BackendError);
    }
    ::close(manager.processes[1].descriptor);
  }
}

TEST(PmiConnection, AnswersThatAreWrongEndTheStart) {
  const std::vector<std::pair<std::string, std::string>> answers{
      {"cmd=response_to_init", "cmd=response_to_init rc=-1\n"},
      {"cmd=my_kvsname", "cmd=my_kvsname rc=0\n"},
      {"cmd=my_kvsname", "hello\n"},
      {"cmd=response_to_init", std::string(5000, 'x')}};
  for (const auto& [start, wrong] : answers) {
    Manager manager(1, Version::pmi1, [&, start = start, wrong = wrong](std::string line) {
      return line.starts_with(start) ? wrong : line;
    });
    EXPECT_THAT(error_of(manager.processes[0]), HasSubstr("PMI_FD")) << wrong.substr(0, 30);
  }
}

TEST(PmiConnection, WrongAnswersOfPmi2EndTheStart) {
  const std::vector<std::pair<std::string, std::string>> answers{
      {"response_to_init", "cmd=response_to_init rc=-1 pmi_version=1\n"},
      {"fullinit", "    20cmd=fullinit-response"},  // and the end of the connection
      {"fullinit", "    32cmd=fullinit-response;rc=14;xxxx"},
      {"fullinit", "    34cmd=fullinit-response;rc=0;rank=5;"},
      {"fullinit", "    34cmd=fullinit-response;rc=0;size=9;"},
      {"fullinit", "cmd=fullinit-response;rc=0;"},
      {"fullinit", "999999cmd=fullinit-response;rc=0;"},
      {"fullinit", "    -5cmd=fullinit-response;rc=0;"},
      {"fullinit", "      cmd=fullinit-response;rc=0;"},
      {"fullinit", "3 3   cmd=fullinit-response;rc=0;"},
      {"fullinit", "     5hello"},
      {"fullinit", "     0"},
      {"job-getid", "    28cmd=job-getid-response;rc=0;"},
      {"job-getid", std::string(5000, 'x')}};
  for (const auto& [start, wrong] : answers) {
    Manager manager(1, Version::pmi2_of_slurm, [&, start = start, wrong = wrong](std::string message) {
      return message.find("cmd=" + start) == std::string::npos ? message : wrong;
    });
    EXPECT_THAT(error_of(manager.processes[0]), HasSubstr("PMI_FD")) << wrong.substr(0, 40);
  }
}

TEST(PmiConnection, AMessageThatComesInPiecesIsWhole) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  std::thread manager([other = Descriptor(ends[1])] {
    const std::string all =
        "cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n"
        "29    cmd=fullinit-response;rc=0;x;"
        "    44cmd=job-getid-response;rc=0;jobid=4711.0000;"
        "29    cmd=finalize-response;rc=0;x;";
    for (const char letter : all) ::send(other.number(), &letter, 1, MSG_NOSIGNAL);
    std::array<char, 1024> ignored{};
    while (::recv(other.number(), ignored.data(), ignored.size(), 0) > 0) {}
  });
  EXPECT_EQ(error_of({ends[0], 0, 1, "4711.0"}), "");
  manager.join();
}

TEST(PmiConnection, AValueThatDoesNotFitALineIsRefused) {
  for (const Version version : kVersions) {
    Manager manager(1, version);
    PmiConnection connection(manager.processes[0]);
    EXPECT_THROW(connection.put("key", std::string(2000, 'x')), BackendError);
  }
}

}  // namespace
}  // namespace rueda
