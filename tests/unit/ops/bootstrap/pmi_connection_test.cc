// SPDX-License-Identifier: Apache-2.0
// PMI-1 as a process manager answers it, and as one that is broken does.
#include "ops/bootstrap/pmi_connection.h"

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

namespace rueda {
namespace {

using testing::HasSubstr;

// Purpose: a process manager of some processes, on a thread that ends when they have closed their sockets.
class Manager {
 public:
  // `change` may replace an answer.
  explicit Manager(
      int size, std::function<std::string(std::string)> change = [](std::string line) { return line; })
      : change_(std::move(change)) {
    for (int rank = 0; rank < size; ++rank) {
      std::array<int, 2> ends{};
      EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
      processes.push_back({ends[0], rank, size});
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
      for (std::size_t end; (end = heard.find('\n')) != std::string::npos; heard.erase(0, end + 1))
        hear(rank, heard.substr(0, end));
    }
    own_[rank].close();
  }

  void say(int rank, const std::string& line) {
    const std::string text = change_(line) + "\n";
    ::send(own_[rank].number(), text.data(), text.size(), MSG_NOSIGNAL);
  }

  void hear(int rank, const std::string& line) {
    std::lock_guard lock(mutex_);
    const auto field = [&](const std::string& name) {
      const std::size_t begin = line.find(name + "=") + name.size() + 1;
      return line.substr(begin, line.find(' ', begin) - begin);
    };
    const std::string command = field("cmd");
    if (command == "init") return say(rank, "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1");
    if (command == "get_my_kvsname") return say(rank, "cmd=my_kvsname rc=0 kvsname=kvs_1");
    if (command == "finalize") return say(rank, "cmd=finalize_ack rc=0");
    if (command == "put") {
      fresh_[field("key")] = field("value");
      return say(rank, "cmd=put_result rc=0");
    }
    if (command == "get") {
      const auto found = values_.find(field("key"));
      return say(rank, found == values_.end() ? "cmd=get_result rc=1"
                                              : "cmd=get_result rc=0 value=" + found->second);
    }
    ASSERT_EQ(command, "barrier_in");
    if (++waiting_ < own_.size()) return;
    waiting_ = 0;
    values_ = fresh_;  // seen only after the barrier, as Slurm does
    for (std::size_t each = 0; each < own_.size(); ++each)
      say(static_cast<int>(each), "cmd=barrier_out tag=0");
  }

  std::function<std::string(std::string)> change_;
  std::vector<Descriptor> own_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::map<std::string, std::string> fresh_, values_;
  std::size_t waiting_ = 0;
};

TcpEndpoint endpoint_of_job(int job) { return {{}, {{"127.0.0.1", static_cast<std::uint16_t>(4000 + job)}}}; }

TEST(PmiConnection, RankZeroPublishesAndAllOthersFindIt) {
  constexpr int kSize = 5;
  Manager manager(kSize);
  std::vector<std::thread> threads;
  for (const PmiProcess& process : manager.processes) {
    threads.emplace_back([process] {
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
        if (process.rank != 0) EXPECT_EQ(found, endpoint_of_job(job));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(PmiConnection, AProcessThatNeverComesLeavesNobodyWaiting) {
  Manager manager(2);
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

TEST(PmiConnection, AnswersThatAreWrongEndTheStart) {
  const std::vector<std::pair<std::string, std::string>> answers{
      {"cmd=response_to_init", "cmd=response_to_init rc=-1"},
      {"cmd=my_kvsname", "cmd=my_kvsname rc=0"},
      {"cmd=my_kvsname", "hello"},
      {"cmd=response_to_init", std::string(5000, 'x')}};
  for (const auto& [start, wrong] : answers) {
    Manager manager(1, [&, start = start, wrong = wrong](std::string line) {
      return line.starts_with(start) ? wrong : line;
    });
    try {
      PmiConnection connection(manager.processes[0]);
      ADD_FAILURE() << wrong.substr(0, 30);
    } catch (const BackendError& error) {
      EXPECT_THAT(error.what(), HasSubstr("PMI_FD"));
    }
  }
}

TEST(PmiConnection, AValueThatDoesNotFitALineIsRefused) {
  Manager manager(1);
  PmiConnection connection(manager.processes[0]);
  EXPECT_THROW(connection.put("key", std::string(2000, 'x')), BackendError);
}

}  // namespace
}  // namespace rueda
