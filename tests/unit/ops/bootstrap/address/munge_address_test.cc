// SPDX-License-Identifier: Apache-2.0
// A rank that looks for rank 0's credential, on a host without munge's daemon. With one:
// tests/python/test_slurm.py.
#include "ops/bootstrap/address/munge_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <string>
#include <thread>

#include "core/base/error.h"
#include "ops/munge/munge.h"
#include "ops/sockets/tcp_socket.h"

namespace rueda {
namespace {

using testing::HasSubstr;
constexpr const char* kNoDaemon = "/nowhere/munge.socket";

// Purpose: a stranger's port. Its first guest gets a text, on a thread that ends with the object.
class Stranger {
 public:
  explicit Stranger(std::string text)
      : listener_(listen_at({"127.0.0.1", 0}).socket), thread_([this, text = std::move(text)] {
          Descriptor guest;
          for (const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
               !guest && std::chrono::steady_clock::now() < end;) {
            guest = Descriptor(::accept4(listener_.number(), nullptr, nullptr, SOCK_CLOEXEC));
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
          ::send(guest.number(), text.data(), text.size(), MSG_NOSIGNAL);
        }) {}
  ~Stranger() { thread_.join(); }
  MungeEndpoint endpoint() const {
    return {"127.0.0.1", address_of(listener_, {"127.0.0.1", 0}).port, kNoDaemon};
  }

 private:
  Descriptor listener_;
  std::thread thread_;
};

TEST(Munge, WithoutItsDaemonThereIsNone) {
  for (const MungeText& answer : {seal_by_munge("text", kNoDaemon), open_by_munge("MUNGE:abc:", kNoDaemon)}) {
    EXPECT_EQ(answer.outcome, MungeText::Outcome::no_munge);
    EXPECT_EQ(answer.text, "");
    EXPECT_NE(answer.why, "");
  }
}

TEST(Munge, WhatACredentialLooksLike) {
  EXPECT_TRUE(may_be_of_munge("MUNGE:AwQFAAD9:"));
  for (const char* text : {"", "MUNGE", "MUNGE:abc", "SSH-2.0-OpenSSH", " MUNGE:abc:"})
    EXPECT_FALSE(may_be_of_munge(text)) << text;
}

TEST(MungeAddress, AStrangersPortGivesNothing) {
  const std::string endless(64 << 10, 'x');
  for (const std::string& text : {std::string(), std::string("SSH-2.0-OpenSSH_9.2"), endless}) {
    const Stranger stranger(text);
    EXPECT_FALSE(address_by_munge(stranger.endpoint(), {})->look()) << text.substr(0, 20);
  }
}

TEST(MungeAddress, NobodyIsThereYet) {
  Descriptor bound = listen_at({"127.0.0.1", 0}).socket;
  const std::uint16_t port = address_of(bound, {"127.0.0.1", 0}).port;
  bound.close();
  const auto address = address_by_munge({"127.0.0.1", port, kNoDaemon}, {});
  EXPECT_FALSE(address->look());
  EXPECT_TRUE(address->may_block());
  EXPECT_THAT(address->in_words(), HasSubstr("credential of munge"));
}

TEST(MungeAddress, ADaemonThatHasGoneEndsTheStart) {
  try {
    const Stranger stranger("MUNGE:AwQFAAD9:");
    address_by_munge(stranger.endpoint(), {})->look();
    ADD_FAILURE();
  } catch (const BackendError& error) {
    EXPECT_THAT(error.what(), HasSubstr("munge on this host does not work any more"));
  }
  EXPECT_THROW(address_by_munge({"127.0.0.1", 1, kNoDaemon}, {})->publish({}), BackendError);
}

}  // namespace
}  // namespace rueda
