// SPDX-License-Identifier: Apache-2.0
#include "launcher/page/page_server.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "launcher/system/descriptor.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr PageBounds kShort{.idle = 600ms, .request = 600ms, .writing = 400ms};

// A server on loopback, and its clients.
class PageServerTest : public testing::Test {
 protected:
  void begin(PageBounds bounds = kShort) {
    PageSocket socket = listen_on_port("127.0.0.1", 0);
    port_ = port_of(socket);
    server_ = PageServer::on_port(std::move(socket), "127.0.0.1", feed_, bounds);
    server_->start();
  }
  void TearDown() override { feed_.close(); }

  Descriptor connect(int receive_buffer = 0) const {
    Descriptor client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (receive_buffer > 0)
      ::setsockopt(client.number(), SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port_));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(client.number(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return client;
  }
  std::string request(const std::string& path, const std::string& fields = "") const {
    const std::string url = server_->url();
    return "GET " + path + "?token=" + url.substr(url.find('=') + 1) + " HTTP/1.1\r\nHost: localhost\r\n" +
           fields + "\r\n";
  }
  // 0: no answer.
  int status_of(const std::string& path, const std::string& fields = "") const {
    const Descriptor client = connect();
    say(client, request(path, fields));
    std::array<char, 16> head{};
    const ssize_t count = ::recv(client.number(), head.data(), 12, MSG_WAITALL);
    return count == 12 ? std::stoi(std::string(head.data() + 9, 3)) : 0;
  }
  static bool say(const Descriptor& client, const std::string& text) {
    return ::send(client.number(), text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }
  // Within that time the server ends the connection.
  static bool is_dropped(const Descriptor& client, std::chrono::milliseconds within) {
    const auto until = Clock::now() + within;
    std::array<char, 4096> buffer{};
    while (Clock::now() < until) {
      pollfd wait{client.number(), POLLIN, 0};
      if (::poll(&wait, 1, 10) == 1 && ::recv(client.number(), buffer.data(), buffer.size(), 0) <= 0)
        return true;
    }
    return false;
  }

  EventFeed feed_;
  int port_ = 0;
  std::unique_ptr<PageServer> server_;
};

class BusyCores {
 public:
  BusyCores() {
    for (unsigned i = 0; i < std::thread::hardware_concurrency(); ++i)
      threads_.emplace_back([this] {
        while (!over_) {}
      });
  }
  ~BusyCores() {
    over_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> over_{false};
  std::vector<std::thread> threads_;
};

long resident_bytes() {
  std::ifstream file("/proc/self/statm");
  long size = 0, resident = 0;
  file >> size >> resident;
  return resident * 4096;
}

TEST_F(PageServerTest, EndsAtEachMomentOfItsStart) {
  const BusyCores busy;
  for (int i = 0; i < 1000; ++i) {
    begin();
    if (i % 3 == 1) std::this_thread::yield();
    if (i % 3 == 2) std::this_thread::sleep_for(std::chrono::microseconds(i / 4));
    server_.reset();
  }
}

TEST_F(PageServerTest, EndsWhileClientsTalkAndListenToIt) {
  for (int i = 0; i < 20; ++i) {
    begin();
    std::vector<Descriptor> clients;
    for (int client = 0; client < 20; ++client) {
      clients.push_back(connect());
      say(clients.back(), client % 2 == 0 ? "GET " : request("/events"));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(i));
    const auto before = Clock::now();
    feed_.close();
    server_.reset();
    EXPECT_LT(Clock::now() - before, 5s);
  }
}

TEST_F(PageServerTest, AnEndlessRequestTakesNoMemory) {
  begin({.idle = 5s, .request = 5s});
  EXPECT_EQ(status_of("/"), 200);
  const long before = resident_bytes();
  const Descriptor client = connect();
  say(client, "GET / HTTP/1.1\r\n");
  std::string lines;
  while (lines.size() < (1 << 20)) lines += "a: b\r\n";
  int sent = 0;
  while (sent < 64 && say(client, lines)) ++sent;
  EXPECT_LT(sent, 64) << "nobody reads so much";
  EXPECT_LT(resident_bytes() - before, 16 << 20);
  EXPECT_EQ(status_of("/"), 200);
}

TEST_F(PageServerTest, OneWhoDripsBytesIsDropped) {
  begin();
  const Descriptor silent = connect(), drips = connect();
  const auto before = Clock::now();
  std::thread dripping([&] {
    while (Clock::now() < before + 3s && say(drips, "G")) std::this_thread::sleep_for(50ms);
  });
  EXPECT_TRUE(is_dropped(silent, 2s));
  EXPECT_TRUE(is_dropped(drips, 2s));
  EXPECT_GT(Clock::now() - before, 500ms);
  dripping.join();
}

TEST_F(PageServerTest, StrangersDoNotShutTheOwnerOut) {
  begin({.idle = 60s, .request = 60s});
  std::vector<Descriptor> strangers;
  for (int i = 0; i < 200; ++i) {
    strangers.push_back(connect());
    say(strangers.back(), "GET / HT");
    if (i % 10 == 9) {
      EXPECT_EQ(status_of("/"), 200) << i;
    }
  }
  EXPECT_TRUE(is_dropped(strangers.front(), 2s)) << "the oldest one";
  EXPECT_FALSE(is_dropped(strangers.back(), 100ms));
}

TEST_F(PageServerTest, OwnersHavePlacesOfTheirOwn) {
  begin({.idle = 60s, .request = 60s});
  std::vector<Descriptor> owners;
  for (int i = 0; i < 24; ++i) {
    owners.push_back(connect());
    say(owners.back(), request("/"));
    std::array<char, 12> head{};
    EXPECT_EQ(::recv(owners.back().number(), head.data(), head.size(), MSG_WAITALL), 12);
  }
  EXPECT_EQ(status_of("/"), 503);
  const std::vector<Descriptor> strangers = [&] {
    std::vector<Descriptor> all;
    for (int i = 0; i < 40; ++i) all.push_back(connect());
    return all;
  }();
  owners.pop_back();
  int status = 0;
  for (int i = 0; i < 100 && status != 200; ++i, std::this_thread::sleep_for(10ms)) status = status_of("/");
  EXPECT_EQ(status, 200);
}

TEST_F(PageServerTest, OnlyThePageItselfActs) {
  begin();
  std::atomic<bool> over{false};
  std::atomic<int> stops{0};
  std::thread loop([&] {
    for (; !over; std::this_thread::sleep_for(1ms)) {
      if (!feed_.take_wanted().wants(Inquiry::stop)) continue;
      ++stops;
      feed_.answer(Inquiry::stop, "{}");
    }
  });
  const auto begin_request = [&](std::string text, const std::string& heads) {
    text.insert(text.size() - 2, heads);
    Descriptor client = connect();
    say(client, text);
    return client;
  };
  const auto status = [&](const std::string& text, const std::string& heads) {
    const Descriptor client = begin_request(text, heads);
    std::array<char, 16> head{};
    EXPECT_EQ(::recv(client.number(), head.data(), 12, MSG_WAITALL), 12);
    return std::stoi(std::string(head.data() + 9, 3));
  };
  const std::string get = request("/stop"), post = "POST" + get.substr(3);
  const std::string none = "Content-Length: 0\r\n";
  EXPECT_EQ(status(get, ""), 405);
  EXPECT_EQ(status(post, none), 403) << "no origin";
  EXPECT_EQ(status(post, none + "Origin: http://elsewhere\r\n"), 403);
  EXPECT_EQ(status(post, none + "Origin: null\r\n"), 403);
  const std::string stranger = "POST /stop HTTP/1.1\r\nHost: localhost\r\n\r\n";
  EXPECT_EQ(status(stranger, none + "Origin: http://localhost\r\n"), 401) << "no token";
  std::string page(1024, ' ');
  const Descriptor client = begin_request(request("/"), "");
  ASSERT_EQ(::recv(client.number(), page.data(), page.size(), MSG_WAITALL), 1024);
  const std::size_t set = page.find("Set-Cookie: ") + 12;
  const std::string cookie = "Cookie: " + page.substr(set, page.find(';', set) - set) + "\r\n";
  EXPECT_EQ(status("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", cookie), 200);
  EXPECT_EQ(status(stranger, none + cookie + "Origin: http://localhost\r\n"), 401)
      << "servers of other ports get the cookie, too";
  EXPECT_EQ(stops, 0);
  EXPECT_EQ(status(post, none + "Origin: http://localhost\r\n"), 200);
  EXPECT_EQ(stops, 1);
  EXPECT_EQ(status("POST" + request("/status").substr(3), none + "Origin: http://localhost\r\n"), 405);
  over = true;
  loop.join();
}

TEST_F(PageServerTest, AListOfManyRangesIsNoHarm) {
  begin();
  const Descriptor client = connect();
  std::string ranges = "bytes=0-0";
  while (ranges.size() < 8000) ranges += ",0-0";
  std::string text = request("/");
  text.insert(text.size() - 2, "Range: " + ranges + "\r\n");
  say(client, text);
  static_cast<void>(is_dropped(client, 1s));
  EXPECT_EQ(status_of("/"), 200);
}

// All of a text of 4 MB, in steps.
TEST_F(PageServerTest, ASlowReaderGetsALongTextAndOneWhoStandsIsDropped) {
  begin();
  const std::string text(4 << 20, 'x');
  std::atomic<bool> over{false};
  std::thread loop([&] {
    for (; !over; std::this_thread::sleep_for(1ms))
      if (feed_.take_wanted().wants(Inquiry::status)) feed_.answer(Inquiry::status, text);
  });
  const Descriptor slow = connect(65536), stands = connect(4096);
  say(slow, request("/status"));
  say(stands, request("/status"));
  const auto before = Clock::now();
  std::vector<char> buffer(256 << 10);
  std::size_t got = 0;
  for (ssize_t count = 1; got < text.size() && count > 0; std::this_thread::sleep_for(100ms)) {
    count = ::recv(slow.number(), buffer.data(), buffer.size(), MSG_WAITALL);
    got += static_cast<std::size_t>(std::max<ssize_t>(count, 0));
  }
  EXPECT_GE(got, text.size());
  EXPECT_GT(Clock::now() - before, 1s) << "longer than one who stands may take";
  std::size_t rest = 0;
  for (ssize_t count; (count = ::recv(stands.number(), buffer.data(), buffer.size(), 0)) > 0;)
    rest += static_cast<std::size_t>(count);
  EXPECT_LT(rest, text.size());
  over = true;
  loop.join();
}

TEST(PageSocket, MovesToAProgramThatReplacesThisOne) {
  EXPECT_FALSE(handed_page_socket());
  LaunchOptions options;
  options.page.host = "127.0.0.1";
  hand_on_page_socket(options);
  receive_page_socket();
  EXPECT_EQ(::getenv("RUEDA_PAGE_SOCKET"), nullptr);
  const std::optional<PageSocket> socket = handed_page_socket();
  ASSERT_TRUE(socket);
  EXPECT_GT(port_of(*socket), 0);
  EXPECT_FALSE(socket->machine.empty());
  EXPECT_EQ(::fcntl(socket->listening.number(), F_GETFD), FD_CLOEXEC);
  EXPECT_FALSE(handed_page_socket()) << "once";
  options.page.is_wanted = false;
  hand_on_page_socket(options);
  receive_page_socket();
  EXPECT_FALSE(handed_page_socket());
}

TEST(PageSocket, AVariableOfSomebodyElseNamesNoSocket) {
  ::setenv("RUEDA_PAGE_SOCKET", "1:2:3 x", 1);
  receive_page_socket();
  EXPECT_FALSE(handed_page_socket());
  ::setenv("RUEDA_PAGE_SOCKET", "nonsense", 1);
  receive_page_socket();
  EXPECT_FALSE(handed_page_socket());
  EXPECT_EQ(::getenv("RUEDA_PAGE_SOCKET"), nullptr);
}

TEST_F(PageServerTest, CopiesNothingManyTimes) {
  begin();
  EXPECT_EQ(status_of("/page.js"), 200);
  EXPECT_EQ(status_of("/page.js", "Range: bytes=0-99\r\n"), 200);
  EXPECT_EQ(status_of("/page.js", "Range: bytes=0-,0-,0-\r\n"), 416);
}

}  // namespace
}  // namespace rueda
