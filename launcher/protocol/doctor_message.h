// SPDX-License-Identifier: Apache-2.0
// Messages of ruedarun --doctor: the facts of a host, and measurements between hosts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/system/authentication.h"

namespace rueda::agents {

// A network card, and the port at which the host listens there.
struct CardFacts {
  std::string name;
  std::string address;
  std::int32_t port = 0;
  std::int32_t megabits = 0;  // a second, as its driver says; 0: it says nothing, or has no wire
  std::int32_t mtu = 0;       // bytes of a packet; 0: unknown
  bool operator==(const CardFacts&) const = default;
};

// A limit of this process. kUnlimited: none.
struct LimitFacts {
  std::uint64_t soft = 0;
  std::uint64_t hard = 0;
  bool operator==(const LimitFacts&) const = default;
};
inline constexpr std::uint64_t kUnlimited = ~std::uint64_t{0};

// The addresses that a host finds for a name.
struct NameFacts {
  std::string name;
  std::vector<std::string> addresses;
  std::string problem;  // empty: none
  bool operator==(const NameFacts&) const = default;
};

struct MemoryFacts {
  std::uint64_t shm_bytes = 0;  // of /dev/shm
  std::uint64_t shm_free = 0;
  std::string shm_problem;    // empty: a file can be made and mapped there
  std::string memfd_problem;  // empty: memory without a name can be made, too
  std::uint64_t installed = 0;
  std::uint64_t available = 0;
  std::uint64_t cgroup_limit = 0;  // 0: none
  std::uint64_t cgroup_used = 0;   // without files that the kernel can drop
  std::string huge_pages;          // "madvise"; empty: the kernel does not say
  bool operator==(const MemoryFacts&) const = default;
};

struct CoreFacts {
  std::int32_t online = 0;
  std::int32_t usable = 0;    // by this process
  std::int32_t physical = 0;  // of the usable ones, without a second thread of the same core
  std::int32_t numa_nodes = 0;
  std::int32_t cgroup_millicores = 0;  // 0: no limit
  std::string clock_source;
  bool operator==(const CoreFacts&) const = default;
};

struct ProcessFacts {
  LimitFacts open_files;
  LimitFacts processes;
  LimitFacts locked_memory;
  LimitFacts core_file;
  std::uint64_t threads_of_user = 0;
  std::uint64_t cgroup_limit = 0;  // of processes and threads; 0: none
  std::uint64_t cgroup_used = 0;
  bool is_root = false;
  bool in_container = false;
  bool sees_all = false;                // processes of this machine
  std::vector<std::string> left_files;  // in /dev/shm, of jobs that have ended; the first ones
  std::uint64_t left_count = 0;         // of all
  std::uint64_t left_bytes = 0;
  bool operator==(const ProcessFacts&) const = default;
};

struct NetworkFacts {
  std::vector<CardFacts> cards;
  std::vector<NameFacts> names;           // of hosts, those that may be wrong
  std::int32_t infiniband = 0;            // devices
  std::vector<std::string> absent_cards;  // chosen ones that are not here
  std::int32_t names_left = 0;            // not looked up within the time
  bool operator==(const NetworkFacts&) const = default;
};

// A module that Python finds by PYTHONPATH alone has no version.
inline constexpr const char* kNotInstalled = "not installed";

struct SoftwareFacts {
  std::string rueda;
  std::string torch;  // that Rueda is built with
  std::string mpi;
  std::vector<std::string> devices;  // "[X] CUDA 13.0 (no driver)"
  std::string folder_problem;        // of the working folder; empty: none
  std::string program_problem;
  std::string python;  // "3.11.2", where PROGRAM is a script of Python
  std::string python_torch;
  std::string python_rueda;  // its version, or kNotInstalled
  std::string python_built;  // the torch that Rueda's Python module was built with
  std::string python_problem;
  bool operator==(const SoftwareFacts&) const = default;
};

// Host to ruedarun.
struct HostFacts {
  MemoryFacts memory;
  CoreFacts cores;
  ProcessFacts processes;
  NetworkFacts network;
  SoftwareFacts software;
  std::vector<std::string> problems;  // of parts that could not be examined
  bool operator==(const HostFacts&) const = default;
};

// ruedarun to a host: tell your facts.
struct Examine {
  std::int32_t host = 0;    // its number
  AuthenticationKey key{};  // of connections between hosts
  std::vector<std::string> hosts;
  std::string cards;  // names or addresses, by commas; empty: all
  std::string folder;
  std::vector<std::string> environment;  // NAME=value
  std::vector<std::string> program;      // PROGRAM ARGS...
  bool operator==(const Examine&) const = default;
};

// ruedarun to a host, and back with the host's time.
struct AskTime {
  std::int32_t round = 0;
  bool operator==(const AskTime&) const = default;
};
struct TellTime {
  std::int32_t round = 0;
  std::int64_t nanoseconds = 0;  // since 1970
  bool operator==(const TellTime&) const = default;
};

// ruedarun to a host: connect to the cards of these hosts.
struct PeerCards {
  std::int32_t host = 0;
  std::vector<CardFacts> cards;
  bool operator==(const PeerCards&) const = default;
};
struct ReachHosts {
  std::vector<PeerCards> peers;
  bool operator==(const ReachHosts&) const = default;
};
// Host to ruedarun: all connections that were tried.
struct ReachedCard {
  std::int32_t host = 0;
  std::int32_t card = 0;       // of the host that connects
  std::int32_t peer_card = 0;  // of the other one
  std::string problem;         // empty: connected
  bool operator==(const ReachedCard&) const = default;
};
struct Reached {
  std::vector<ReachedCard> cards;
  bool operator==(const Reached&) const = default;
};

// ruedarun to a host: measure this connection, each direction for so long.
struct MeasureLink {
  std::int32_t host = 0;
  std::int32_t card = 0;
  std::int32_t milliseconds = 0;
  bool operator==(const MeasureLink&) const = default;
};
// Host to ruedarun.
struct LinkMeasured {
  std::int32_t host = 0;
  std::int32_t card = 0;
  std::uint64_t round_trip = 0;  // nanoseconds, the median
  std::uint64_t sent = 0;        // bytes a second
  std::uint64_t received = 0;
  std::string problem;  // empty: none
  bool operator==(const LinkMeasured&) const = default;
};

// Leaves out what makes the message longer than `most` bytes: ends of texts, and the last of long lists.
void shorten(HostFacts& facts, std::size_t most);

void write(Writer& writer, const HostFacts& message);
void read(Reader& reader, HostFacts& message);
void write(Writer& writer, const Examine& message);
void read(Reader& reader, Examine& message);
void write(Writer& writer, const AskTime& message);
void read(Reader& reader, AskTime& message);
void write(Writer& writer, const TellTime& message);
void read(Reader& reader, TellTime& message);
void write(Writer& writer, const ReachHosts& message);
void read(Reader& reader, ReachHosts& message);
void write(Writer& writer, const Reached& message);
void read(Reader& reader, Reached& message);
void write(Writer& writer, const MeasureLink& message);
void read(Reader& reader, MeasureLink& message);
void write(Writer& writer, const LinkMeasured& message);
void read(Reader& reader, LinkMeasured& message);

}  // namespace rueda::agents
