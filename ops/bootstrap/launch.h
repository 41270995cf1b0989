// SPDX-License-Identifier: Apache-2.0
// The launcher of this process, its rank and size, and its way to the other ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/config.h"
#include "ops/bootstrap/address/key_value_store.h"
#include "rueda/types.h"

namespace rueda {

// The value of a variable of the environment; null where it is not set.
using Environment = std::function<const char*(const char*)>;

// How the ranks of a job find one another.
enum class BootstrapMethod {
  alone,     // one process, one rank
  launcher,  // ruedarun, by the agent of this host
  mpi,       // MPI_Init finds them
  pmi,       // the process manager's keys, without MPI
  pmix,      // the same, by PMIx
  torchrun,  // the store of torchrun's agent
  slurm,     // the first node of the step, at a port that follows from it
  store,     // a host and a port that the user names: rank 0 listens there
  file,      // a folder that all hosts share
  program,   // a store that the program has given to init()
};
std::string_view to_string(BootstrapMethod method);

// Purpose: one process as its launcher describes it. A plain value.
struct Launch {
  BootstrapMethod method = BootstrapMethod::alone;
  Rank rank = 0;
  Rank size = 1;
  bool one_host = false;   // the launcher says that all ranks are here
  std::string host;        // store, slurm and torchrun: the host ...
  std::uint16_t port = 0;  // ... and the port
  std::string folder;      // file
  bool by_munge = false;   // slurm: rank 0 hands out its address there, for its user alone
  std::string source;      // of rank and size, for messages: "RANK and WORLD_SIZE"
  std::shared_ptr<KeyValueStore> given_store;  // program; pmix, once it has numbered the ranks
};

// Reads RUEDA_BOOTSTRAP and RUEDA_STORE, and the variables of launchers. `mpi_has_begun`: by the program.
// Throws BackendError where variables contradict each other, or a method that was asked for lacks one. With
// pmix the variables do not number the ranks: see numbered_by_pmix().
Launch find_launch(const Config& config, const Environment& environment, bool mpi_has_begun);

// A host that is this one for every process: "localhost", "127.0.0.1", "::1".
bool is_loopback(std::string_view host);

// "a01" of "a[01-03,7],b5".
std::string first_host_of(std::string_view slurm_list);

// "node7:4242" or "[fd00::2]:4242"; nothing where it is neither.
struct HostAndPort {
  std::string host;
  std::uint16_t port = 0;
  friend bool operator==(const HostAndPort&, const HostAndPort&) = default;
};
std::optional<HostAndPort> host_and_port_from(std::string_view text);

}  // namespace rueda
