// SPDX-License-Identifier: Apache-2.0
// Messages between ruedarun and the agent of each host.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/base/bytes.h"
#include "core/control/membership/generation.h"
#include "launcher/job/placement.h"
#include "launcher/protocol/doctor_message.h"
#include "launcher/protocol/observation.h"
#include "launcher/protocol/request.h"
#include "launcher/system/pseudo_terminal.h"
#include "launcher/system/signals.h"

namespace rueda::agents {

inline constexpr std::size_t kLongestOutput = 16 << 10;  // bytes of output in one message
inline constexpr std::size_t kLongestInput = 64 << 10;
inline constexpr std::size_t kLongestMessage = 128 << 20;  // a whole environment; Linux gives a process less
inline constexpr std::size_t kLongestKey = 256;
inline constexpr std::size_t kLongestValue = 4096;

enum class Stream : std::uint8_t { output, errors };
enum class Binding : std::uint8_t { none, core, socket };

// ruedarun to agent, the first message: the ranks to start, and how.
struct Launch {
  std::vector<SlotInfo> ranks;           // of this host; none where workers come later
  std::int32_t slots = 1;                // of this host: how many ranks share its cores
  std::string host;                      // this one, as the user names it
  std::vector<std::string> command;      // PROGRAM ARGS...
  std::vector<std::string> environment;  // NAME=value
  std::string folder;                    // the working directory
  SignalState signals;                   // as ranks are to have them
  Binding binding = Binding::none;
  bool forwards_input = false;     // rank 0 gets what Input brings; else ruedarun's own standard input
  std::string hosts_of_processes;  // for MPI: which host each rank is on, as PMI has it
  // For MPI: no other job has this name. MPICH calls its shared memory by it.
  std::string name;
  std::optional<TerminalSize> terminal{};  // rank 0 gets a terminal of this size, and `forwards_input` counts
  bool needs_terminal = false;             // without one the ranks do not start
  bool elastic = false;                    // ranks are workers, and others may take their slots
  bool one_host = false;                   // of an elastic job: all workers are on this host, also later ones
  bool operator==(const Launch&) const = default;
};
// Agent to ruedarun, the first message.
struct Ready {
  std::string host;
  std::int32_t agent = 0;  // its process
  bool operator==(const Ready&) const = default;
};
// Agent to ruedarun: the rank runs.
struct Started {
  std::int32_t rank = 0;
  std::int32_t process = 0;
  std::string cores;  // to which it is bound: "0-3,8"; empty: to none
  bool operator==(const Started&) const = default;
};
// Agent to ruedarun: a rank has ended; `status` is that of wait().
struct Ended {
  std::int32_t rank = 0;
  std::int32_t status = 0;
  bool asked = false;     // ruedarun had asked for it
  bool in_mpi = false;    // MPI had begun and not ended, so others may wait for the rank
  std::string failure{};  // of its operations, shortly before: the cause may be another rank; else empty
  bool saw_loss = false;  // another rank had been lost to it, shortly before
  bool operator==(const Ended&) const = default;
};
// Agent to ruedarun: the ranks of this host cannot be started.
struct CannotStart {
  std::string why;
  bool operator==(const CannotStart&) const = default;
};
// Agent to ruedarun: rank 0 starts without a terminal, since the host has none.
struct NoTerminal {
  std::string why;
  bool operator==(const NoTerminal&) const = default;
};
// Agent to ruedarun: a rank has written this.
struct Output {
  std::int32_t rank = 0;
  Stream stream = Stream::output;
  std::string text;
  bool operator==(const Output&) const = default;
};
// Agent to ruedarun, and from there to all agents: ranks of every host can read this value from now on. An
// empty value takes the key away.
struct Put {
  std::string key;
  std::string value;
  bool operator==(const Put&) const = default;
};
// Agent to ruedarun: all ranks of this host have entered a barrier of PMI.
struct BarrierIn {
  bool operator==(const BarrierIn&) const = default;
};
// ruedarun to agent: so have those of all other hosts.
struct BarrierOut {
  bool operator==(const BarrierOut&) const = default;
};
// ruedarun to agent: a rank has failed.
struct PeerEnded {
  std::int32_t rank = 0;
  std::string words;  // "rank 2 (process 17 on node3) was killed by signal 9 (Killed)"
  bool operator==(const PeerEnded&) const = default;
};
// ruedarun to agent: ranks are to end. SIGKILL is for all processes of a rank, any other signal for its main
// process.
struct SendSignal {
  std::int32_t signal = 0;
  bool operator==(const SendSignal&) const = default;
};
// ruedarun to agent: a signal that ruedarun was sent. How the rank answers is its own affair.
struct PassOn {
  std::int32_t signal = 0;
  bool operator==(const PassOn&) const = default;
};
// ruedarun to agent: whether the output of ranks has to wait, since nobody reads it.
struct HoldOutput {
  bool hold = false;
  bool operator==(const HoldOutput&) const = default;
};
// ruedarun to agent: standard input of rank 0; empty at its end.
struct Input {
  std::string text;
  bool operator==(const Input&) const = default;
};
// Agent to ruedarun: rank 0 has taken so many bytes of it.
struct InputTaken {
  std::uint32_t bytes = 0;
  bool operator==(const InputTaken&) const = default;
};
// ruedarun to agent: it has taken messages of such a cost from the connection.
struct Credit {
  std::uint32_t cost = 0;
  bool operator==(const Credit&) const = default;
};
// ruedarun to agent: every rank has ended. The agent clears up and ends.
struct JobOver {
  bool operator==(const JobOver&) const = default;
};
// ruedarun to agent: the user's terminal has this size now.
struct Resize {
  TerminalSize size;
  bool operator==(const Resize&) const = default;
};
// Agent to ruedarun: the user has typed the key of this signal, and it is for the whole job.
struct KeyTyped {
  std::int32_t signal = 0;  // SIGINT, SIGQUIT or SIGTSTP
  bool operator==(const KeyTyped&) const = default;
};

// ruedarun to agent, in an elastic job: a worker more, in the slot of one that is lost or in a free one. Its
// rank is the worker's number.
struct StartWorker {
  SlotInfo slot;
  bool operator==(const StartWorker&) const = default;
};
// Agent to ruedarun, in an elastic job: how far a worker is.
struct WorkerState {
  enum class Kind : std::uint8_t {
    fresh,      // it waits for its first generation
    ready,      // it waits for another one than `generation`, which it has tried or been in
    formed,     // it has met all others of `generation`
    has_state,  // it has the state of training
  };
  std::int32_t worker = 0;
  Kind kind = Kind::fresh;
  std::uint64_t generation = 0;
  bool operator==(const WorkerState&) const = default;
};
// ruedarun to agent: this worker is to be killed, with all its processes.
struct EndWorker {
  std::int32_t worker = 0;
  bool is_loss = true;  // else it is not missed
  bool operator==(const EndWorker&) const = default;
};
// ruedarun to agent, and from there to the worker: the next generation may do without it, and then it ends.
struct Retire {
  std::int32_t worker = 0;
  bool operator==(const Retire&) const = default;
};
// ruedarun to agent, and from there to all workers: what would change if they left their generation.
struct ChangeDue {
  bool joiners = false;  // others wait to join
  bool leavers = false;  // some are to retire
  bool operator==(const ChangeDue&) const = default;
};
// Agent to ruedarun, in an elastic job: its host is to go, since the agent has got SIGTERM.
struct HostLeaves {
  bool operator==(const HostLeaves&) const = default;
};
// ruedarun to agent, and from there to all workers: these make up the job from now on.
struct NewGeneration {
  Generation generation;
  bool operator==(const NewGeneration&) const = default;
};

using Message =
    std::variant<Launch, Ready, Started, Ended, CannotStart, Output, Put, BarrierIn, BarrierOut, PeerEnded,
                 SendSignal, PassOn, HoldOutput, Input, InputTaken, JobOver, Resize, KeyTyped, NoTerminal,
                 Credit, StartWorker, WorkerState, EndWorker, Retire, ChangeDue, HostLeaves, NewGeneration,
                 Examine, HostFacts, AskTime, TellTime, ReachHosts, Reached, MeasureLink, LinkMeasured, Watch,
                 Observed, HostLoad, Request, AnswerPart, Stalled>;

// The cost of the messages that an agent may send before ruedarun has taken them. So many fit into the buffer
// of a socket.
inline constexpr std::size_t kMostAhead = 32 << 10;
// In bytes, with what the kernel keeps of a message beside them.
constexpr std::size_t cost_of(ConstBytes message) { return message.size() + 512; }

Bytes encode(const Message& message);
// Nothing when `bytes` are no message.
std::optional<Message> decode(ConstBytes bytes);

}  // namespace rueda::agents
