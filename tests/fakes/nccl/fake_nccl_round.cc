// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/nccl/fake_nccl_round.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "tests/support/conformance/values.h"

namespace rueda {
namespace {

std::size_t bytes_of(const FakeCall& call) { return call.count * size_of(call.dtype); }

double reduced(const std::vector<const FakeCall*>& members, const std::vector<double>& factors,
               std::int64_t i) {
  const FakeCall& first = *members.front();
  double result = 0;
  for (std::size_t m = 0; m < members.size(); ++m) {
    double value = value_at(first.dtype, FakeDevice::real(members[m]->from), i);
    if (first.op >= ncclNumOps) value *= factors.at(static_cast<std::size_t>(first.op - ncclNumOps));
    if (m == 0) {
      result = value;
    } else {
      switch (first.op) {
        case ncclProd: result *= value; break;
        case ncclMax: result = std::max(result, value); break;
        case ncclMin: result = std::min(result, value); break;
        default: result += value;
      }
    }
  }
  if (first.op == ncclAvg) result /= static_cast<double>(members.size());
  return is_integer(first.dtype) ? std::trunc(result) : result;
}

using Copied = std::vector<std::byte>;

Copied bytes_at(const void* memory, std::size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(FakeDevice::real(memory));
  return {begin, begin + bytes};
}

// Results of one collective call, by rank; nothing is written before all have been read.
std::vector<Copied> results(const std::vector<const FakeCall*>& members, const std::vector<double>& factors) {
  const FakeCall& first = *members.front();
  const std::size_t size = members.size(), bytes = bytes_of(first);
  std::vector<Copied> out(size);
  if (first.what == "ncclBroadcast") {
    for (Copied& each : out) each = bytes_at(members[static_cast<std::size_t>(first.peer)]->from, bytes);
    return out;
  }
  if (first.what == "ncclAllGather") {
    Copied all;
    for (const FakeCall* each : members) {
      const Copied part = bytes_at(each->from, bytes);
      all.insert(all.end(), part.begin(), part.end());
    }
    std::ranges::fill(out, all);
    return out;
  }
  const bool scatters = first.what == "ncclReduceScatter";
  const std::size_t count = first.count * (scatters ? size : 1);
  Copied sum(count * size_of(first.dtype));
  for (std::size_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::int64_t>(i);
    set_value(first.dtype, sum.data(), at, reduced(members, factors, at));
  }
  for (std::size_t m = 0; m < size; ++m) {
    const auto part = sum.begin() + static_cast<std::ptrdiff_t>(m * bytes);
    if (scatters) out[m].assign(part, part + static_cast<std::ptrdiff_t>(bytes));
    if (!scatters && (first.what != "ncclReduce" || static_cast<int>(m) == first.peer)) out[m] = sum;
  }
  return out;
}

// Of a rank's memory: which window, and where in it; none: {-1, 0}.
std::pair<int, std::ptrdiff_t> known(const std::vector<FakeWindow>& windows, const void* memory) {
  const auto* address = static_cast<const std::byte*>(memory);
  for (std::size_t i = 0; i < windows.size(); ++i) {
    if (address >= windows[i].memory && address < windows[i].memory + windows[i].bytes)
      return {static_cast<int>(i), address - windows[i].memory};
  }
  return {-1, 0};
}

void check_windows(FakeClique& clique, const std::vector<const FakeCall*>& members) {
  for (std::size_t m = 1; m < members.size(); ++m) {
    const auto &first = clique.windows[0], &mine = clique.windows[static_cast<int>(m)];
    if (known(first, members[0]->from) != known(mine, members[m]->from) ||
        known(first, members[0]->to) != known(mine, members[m]->to))
      throw std::runtime_error(
          "FakeNccl: members' memory is registered here and not there, or lies elsewhere");
  }
}

void write(const FakeCall& call, const Copied& bytes) {
  if (!bytes.empty()) std::memcpy(FakeDevice::real(call.to), bytes.data(), bytes.size());
}

void send_and_receive(FakeRound& round) {
  for (auto& [to, calls] : round.calls) {
    for (const FakeCall& call : calls) {
      if (call.what != "ncclRecv") continue;
      auto& theirs = round.calls.at(call.peer);
      const auto sent = std::ranges::find_if(
          theirs, [to = to](const FakeCall& each) { return each.what == "ncclSend" && each.peer == to; });
      if (sent == theirs.end() || sent->count != call.count)
        throw std::runtime_error("FakeNccl: a receive without its send, or of another length");
      write(call, bytes_at(sent->from, bytes_of(*sent)));
    }
  }
}

}  // namespace

void run_round(FakeClique& clique, FakeRound& round, const std::vector<double>& factors) {
  const std::vector<FakeCall>& first = round.calls.at(0);
  const bool pairs = std::ranges::any_of(round.calls, [](const auto& each) {
    return !each.second.empty() && (each.second[0].what == "ncclSend" || each.second[0].what == "ncclRecv");
  });
  if (pairs) return send_and_receive(round);
  for (std::size_t i = 0; i < first.size(); ++i) {
    std::vector<const FakeCall*> members;
    for (int rank = 0; rank < clique.size; ++rank) {
      const FakeCall& call = round.calls.at(rank).at(i);
      if (call.what != first[i].what || call.count != first[i].count || call.dtype != first[i].dtype ||
          call.op != first[i].op || call.peer != first[i].peer)
        throw std::runtime_error("FakeNccl: members differ in what they ask");
      members.push_back(&call);
    }
    check_windows(clique, members);
    const std::vector<Copied> out = results(members, factors);
    for (std::size_t m = 0; m < members.size(); ++m) write(*members[m], out[m]);
  }
}

}  // namespace rueda
