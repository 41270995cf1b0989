// SPDX-License-Identifier: Apache-2.0
// How ranks find each other, and whom they do not let in.
#include "ops/tcp/connect/listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <set>
#include <thread>

#include "ops/sockets/tcp_socket.h"
#include "ops/tcp/connect/handshake.h"
#include "tests/support/in_child.h"
#include "tests/support/worlds/tcp_pair.h"

namespace rueda {
namespace {

using testing::HasSubstr;

TcpSettings settings_of(std::vector<std::string> cards, double deadline = 10.0) {
  return {std::move(cards), deadline, 0.3};
}

// Purpose: a job in which every rank has its door open.
struct Job {
  std::vector<std::unique_ptr<TcpListener>> doors;
  std::vector<std::string> hosts;
  std::vector<std::string> peer_infos;

  explicit Job(const std::vector<TcpSettings>& settings) {
    for (const TcpSettings& one : settings) {
      TcpListener::Opened opened = TcpListener::open(one);
      EXPECT_TRUE(opened.status.ok()) << opened.status.message;
      peer_infos.push_back(opened.door->endpoint());
      doors.push_back(std::move(opened.door));
      hosts.push_back("host" + std::to_string(hosts.size()));
    }
  }

  Rank size() const { return static_cast<Rank>(doors.size()); }
  TcpListener::Connections connect(Rank rank) {
    std::set<Rank> others;
    for (Rank other = 0; other < size(); ++other) others.insert(other);
    others.erase(rank);
    return doors[rank]->connect(rank, hosts, peer_infos, others);
  }
  std::vector<TcpListener::Connections> connect_all() {
    std::vector<TcpListener::Connections> connections(doors.size());
    std::vector<std::thread> threads;
    for (Rank rank = 0; rank < size(); ++rank)
      threads.emplace_back([&, rank] { connections[rank] = connect(rank); });
    for (std::thread& thread : threads) thread.join();
    return connections;
  }
};

constexpr PublicKey kNoKey{};

void expect_mirrored(const RailKeys& here, const RailKeys& there) {
  EXPECT_EQ(here.cipher, there.cipher);
  EXPECT_EQ(here.data.send, there.data.receive);
  EXPECT_EQ(here.data.receive, there.data.send);
  EXPECT_EQ(here.control.send, there.control.receive);
  EXPECT_EQ(here.control.receive, there.control.send);
  const std::set<Proof> different{here.data.send, here.data.receive, here.control.send, here.control.receive};
  EXPECT_EQ(different.size(), 4u);
}

// Whether each rail of one side is the same connection as that of the other.
void expect_connected(TcpListener::Connections& low, Rank low_rank, TcpListener::Connections& high,
                      Rank high_rank, std::size_t rails) {
  std::vector<ConnectedRail>& here = low.rails[high_rank];
  std::vector<ConnectedRail>& there = high.rails[low_rank];
  ASSERT_EQ(here.size(), rails);
  ASSERT_EQ(there.size(), rails);
  for (std::size_t rail = 0; rail < rails; ++rail) {
    EXPECT_TRUE(send_block(here[rail].socket, rail));
    BlockReader<std::size_t> reader;
    EXPECT_TRUE(
        wait_until([&] { return reader.read(there[rail].socket) == BlockReader<std::size_t>::Came::all; }));
    EXPECT_EQ(reader.block(), rail);
    expect_mirrored(here[rail].keys, there[rail].keys);
  }
}

TEST(TcpEndpoint, IsReadWithinBounds) {
  TcpEndpoint endpoint{random_key(), {{"10.0.0.1", 4242}, {"fd00::2", 80}}};
  const std::string bytes = to_bytes(endpoint);
  EXPECT_EQ(tcp_endpoint_from(bytes), endpoint);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_EQ(tcp_endpoint_from(bytes.substr(0, size)), std::nullopt);
  EXPECT_EQ(tcp_endpoint_from(bytes + "x"), std::nullopt);
  endpoint.addresses[0].port = 0;
  EXPECT_EQ(tcp_endpoint_from(to_bytes(endpoint)), std::nullopt);
  endpoint.addresses = {{"example.org", 1}};
  EXPECT_EQ(tcp_endpoint_from(to_bytes(endpoint)), std::nullopt);
  endpoint.addresses.assign(TcpEndpoint::kMostAddresses + 1, {"10.0.0.1", 1});
  EXPECT_EQ(tcp_endpoint_from(to_bytes(endpoint)), std::nullopt);
}

TEST(TcpHello, IsProvedByTheSecretAlone) {
  const TcpSecret secret = random_key();
  const TcpHello hello = make_hello(secret, 3, 5, 1, 0, kNoKey);
  EXPECT_TRUE(proves(hello, secret));
  EXPECT_FALSE(proves(hello, random_key()));
  TcpHello forged = hello;
  forged.from = 4;
  EXPECT_FALSE(proves(forged, secret));
  const TcpAnswer answer = answer_to(hello, secret, kNoKey);
  EXPECT_TRUE(proves(answer, hello, secret));
  EXPECT_FALSE(proves(answer, hello, random_key()));
  EXPECT_FALSE(proves(TcpAnswer{{}, {}, Cipher::none, 0, hello.proof}, hello, secret));
  TcpAnswer plain = answer_to(make_hello(secret, 3, 5, 1, 0, kNoKey, true), secret, kNoKey);
  plain.encrypted = 0;  // somebody on the way wants to read the data
  EXPECT_FALSE(proves(plain, hello, secret));
}

TEST(TcpHello, DataIsEncryptedWhereOneSideWantsIt) {
  const TcpSecret secret = random_key();
  for (const bool here : {false, true}) {
    for (const bool there : {false, true}) {
      TcpHello hello = make_hello(secret, 3, 5, 1, 0, kNoKey, here);
      const TcpAnswer answer = answer_to(hello, secret, kNoKey, there);
      EXPECT_EQ(answer.encrypted, here || there ? 1u : 0u);
      EXPECT_EQ(answer.cipher, best_cipher());
      hello.best = Cipher::chacha20_poly1305;
      EXPECT_EQ(answer_to(hello, secret, kNoKey, there).cipher, Cipher::chacha20_poly1305);
    }
  }
}

// Nor one who knows the secret of the job has it.
TEST(TcpHello, NoTwoConnectionsHaveOneKey) {
  const TcpSecret secret = random_key();
  const ExchangeKeys here = random_exchange_keys(), there = random_exchange_keys();
  const TcpHello hello = make_hello(secret, 3, 5, 1, 0, here.open);
  const TcpAnswer answer = answer_to(hello, secret, there.open), again = answer_to(hello, secret, there.open);
  const auto key = [&](const TcpAnswer& told, const ExchangeKeys& exchange) {
    return keys_of(HandshakeSide::connecting, hello, told, secret, exchange)->data.send;
  };
  EXPECT_EQ(key(answer, here), key(answer, here));
  EXPECT_NE(key(answer, here), key(again, here));  // somebody repeats a hello
  EXPECT_NE(key(answer, here), key(answer, random_exchange_keys()));
  const TcpAnswer without = answer_to(hello, secret, kNoKey);
  EXPECT_FALSE(keys_of(HandshakeSide::connecting, hello, without, secret, here));
}

TEST(TcpListener, ConnectsEveryPairByEveryRail) {
  Job job(std::vector(4, settings_of({"127.0.0.1", "127.0.0.2"})));
  std::vector<TcpListener::Connections> connections = job.connect_all();
  for (Rank low = 0; low < job.size(); ++low) {
    ASSERT_TRUE(connections[low].status.ok()) << connections[low].status.message;
    for (Rank high = low + 1; high < job.size(); ++high)
      expect_connected(connections[low], low, connections[high], high, 2);
  }
}

TEST(TcpListener, TheOneWithFewerCardsDecides) {
  Job job({settings_of({"127.0.0.1", "127.0.0.2", "127.0.0.3"}), settings_of({"127.0.0.4"}),
           settings_of({"127.0.0.5", "127.0.0.6"})});
  std::vector<TcpListener::Connections> connections = job.connect_all();
  expect_connected(connections[0], 0, connections[1], 1, 1);
  expect_connected(connections[0], 0, connections[2], 2, 2);
  expect_connected(connections[1], 1, connections[2], 2, 1);
}

TEST(TcpListener, ConnectsByIpv6) {
  if (!TcpListener::open(settings_of({"::1"})).status.ok()) GTEST_SKIP() << "there is no ::1 here";
  Job job(std::vector(2, settings_of({"::1", "127.0.0.1"})));
  std::vector<TcpListener::Connections> connections = job.connect_all();
  expect_connected(connections[0], 0, connections[1], 1, 2);
}

// One of two addresses cannot be reached; where there is a third, that is taken.
TEST(TcpListener, PairsThatDoNotConnectAreLeftOut) {
  for (const std::size_t rails : {1, 2}) {
    std::vector<std::string> others{"127.0.0.3", "127.0.0.4", "127.0.0.5"};
    others.resize(rails + 1);
    Job job({settings_of({"127.0.0.1", "127.0.0.2"}), settings_of(others)});
    TcpEndpoint endpoint = *tcp_endpoint_from(job.peer_infos[1]);
    endpoint.addresses[0].port = 1;  // nobody listens there
    job.peer_infos[1] = to_bytes(endpoint);
    std::vector<TcpListener::Connections> connections = job.connect_all();
    ASSERT_TRUE(connections[0].status.ok()) << connections[0].status.message;
    expect_connected(connections[0], 0, connections[1], 1, rails);
  }
}

// While one rank waits for its only peer, another one that it does not need yet connects with it.
TEST(TcpListener, OthersConnectOnDemandAlreadyDuringConnect) {
  Job job(std::vector(3, settings_of({"127.0.0.1"})));
  TcpListener::Connections connections;
  std::thread waiting([&] { connections = job.doors[2]->connect(2, job.hosts, job.peer_infos, {1}); });
  const auto early = job.doors[0]->dial_on_demand(0, job.hosts, job.peer_infos);
  early->want(2, clock_now());
  EXPECT_TRUE(wait_until([&] { return early->progress(clock_now()).contains(2); }));
  const auto expected = job.doors[1]->dial_on_demand(1, job.hosts, job.peer_infos);
  expected->want(2, clock_now());
  EXPECT_TRUE(wait_until([&] { return expected->progress(clock_now()).contains(2); }));
  waiting.join();
  EXPECT_TRUE(connections.status.ok()) << connections.status.message;
  EXPECT_TRUE(connections.rails.contains(0) && connections.rails.contains(1));
}

TEST(TcpListener, WhoCannotBeReachedIsNamed) {
  Job job({settings_of({"127.0.0.1"}, 0.6), settings_of({"127.0.0.1"}, 0.6)});
  const TcpEndpoint endpoint = *tcp_endpoint_from(job.peer_infos[1]);
  TcpEndpoint wrong = endpoint;
  wrong.addresses[0].port = 1;
  job.peer_infos[1] = to_bytes(wrong);
  std::vector<TcpListener::Connections> connections = job.connect_all();
  EXPECT_THAT(
      connections[0].status.message,
      HasSubstr("rank 0 on host0 found no way by TCP to rank 1 on host1 within 0.6 s; it tried 127.0.0.1 -> "
                "127.0.0.1:1 Connection refused. Make sure"));
  EXPECT_THAT(connections[1].status.message,
              HasSubstr("rank 1 on host1 was not reached by TCP by rank 0 on host0 within "
                        "0.6 s; it listened at 127.0.0.1. Make sure"));
  EXPECT_TRUE(connections[0].rails.empty() && connections[1].rails.empty());

  Job other({settings_of({"127.0.0.1"}, 0.6), settings_of({"127.0.0.1"}, 0.6)});
  EXPECT_THAT(other.connect(0).status.message,
              HasSubstr("127.0.0.1 -> " + to_string(tcp_endpoint_from(other.peer_infos[1])->addresses[0]) +
                        " did not answer"));
  other.peer_infos[1] = "nonsense";
  EXPECT_THAT([&] { other.connect(0); }, testing::ThrowsMessage<BackendError>(HasSubstr(
                                             "rank 0 cannot read the TCP addresses of rank 1 on host1")));
}

TEST(TcpListener, CardsThatAreNotThereAreNamed) {
  EXPECT_THAT(TcpListener::open(settings_of({"eth77"})).status.message,
              HasSubstr("there is no network card eth77 here that is up and has an address; there are "));
  EXPECT_THAT(TcpListener::open(settings_of({"203.0.113.7"})).status.message,
              HasSubstr("cannot listen at 203.0.113.7: "));
  EXPECT_EQ(tcp_endpoint_from(TcpListener::open(settings_of({"lo"})).door->endpoint())->addresses[0].host,
            "127.0.0.1");
}

TEST(TcpListener, TooManyOpenFilesHaveTheirOwnRemedy) {
  EXPECT_TRUE(in_child([] {
    static_cast<void>(TcpListener::open(settings_of({"127.0.0.1"})));  // UBSan opens a pipe at its first use
    const rlimit none{0, 0};
    setrlimit(RLIMIT_NOFILE, &none);
    const std::string words = TcpListener::open(settings_of({"127.0.0.1"})).status.message;
    return words.find("ulimit -n") != std::string::npos && words.find("RUEDA_RAILS") == std::string::npos &&
           TcpListener::open(settings_of({})).status.message.find("ulimit -n") != std::string::npos;
  }));
}

// Strangers come in numbers, say nothing, or nonsense, or what somebody else has said; the right ones get in.
TEST(TcpListener, StrangersStayOutsideAndStopNobody) {
  Job job(std::vector(2, settings_of({"127.0.0.1"})));
  const TcpEndpoint endpoint = *tcp_endpoint_from(job.peer_infos[1]);
  std::vector<Descriptor> strangers;
  const auto come = [&] {
    strangers.push_back(connect_from(kTestAddress, endpoint.addresses[0]).socket);
    return connect_error(strangers.back()) == 0;
  };
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(come());
    const Descriptor& stranger = strangers.back();
    EXPECT_TRUE(i % 3 != 1 || send_block(stranger, FrameBytes{}));
    EXPECT_TRUE(i % 3 != 2 || send_block(stranger, TcpHello{.from = 0, .to = 1}));
  }
  // One that knows the secret, for another rank, for a rank that is not expected, and for itself.
  for (const auto& [from, to] : {std::pair{0, 2}, {2, 1}, {1, 1}}) {
    ASSERT_TRUE(come());
    EXPECT_TRUE(send_block(strangers.back(), make_hello(endpoint.secret, from, to, 0, 0, kNoKey)));
  }
  std::vector<TcpListener::Connections> connections = job.connect_all();
  ASSERT_TRUE(connections[0].status.ok()) << connections[0].status.message;
  expect_connected(connections[0], 0, connections[1], 1, 1);
}

}  // namespace
}  // namespace rueda
