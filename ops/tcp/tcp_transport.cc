// SPDX-License-Identifier: Apache-2.0
#include "ops/tcp/tcp_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/base/time.h"
#include "core/control/negotiation/tree.h"
#include "core/engine/work.h"

namespace rueda {
namespace {

constexpr std::size_t kPieceBytes = Frame::kMostEager;
constexpr std::size_t kData = kPieceBytes - 1 - RecordCipher::kTagBytes;  // of a message, in a piece
constexpr int kExpected = 2;                                              // pieces from a neighbour
constexpr auto kTimeout = std::chrono::seconds(2);

// The last byte of a piece, before it is encrypted.
constexpr std::byte kMore{0};      // the message goes on
constexpr std::byte kEnd{1};       // of the message
constexpr std::byte kFarewell{2};  // nothing comes after this

}  // namespace

std::set<Rank> control_neighbours(Rank rank, const std::vector<std::string>& hosts) {
  const TreeNode node = tree::by_host(rank, hosts);
  std::set<Rank> neighbours(node.children.begin(), node.children.end());
  if (rank != 0) neighbours.insert(node.parent);
  std::set<std::string_view> seen;
  for (Rank leader = 0; leader < static_cast<Rank>(hosts.size()); ++leader) {
    if (!seen.insert(hosts[leader]).second) continue;
    if (rank == 0) neighbours.insert(leader);
    if (rank == leader) neighbours.insert(0);
  }
  neighbours.erase(rank);
  return neighbours;
}

TcpTransport::~TcpTransport() {
  if (!connected_) return;
  try {
    if (!cut_) say_farewell();
  } catch (const PeerGone&) {
  } catch (const std::exception&) {  // there is nobody left to tell
  }
  for (auto& [peer, edge] : edges_) {
    for (const Piece& piece : edge.receiving) link_->cancel(piece.ticket);
    for (const Piece& piece : edge.sending) link_->cancel(piece.ticket);
  }
}

void TcpTransport::connect(const std::set<Rank>& neighbours) {
  owner_.check();
  connected_ = true;
  if (start_ && start_->only_reaches_root()) {
    start_->end_in_order();
    start_.reset();
  }
  for (const Rank peer : neighbours) {
    Edge& edge = edges_.try_emplace(peer, link_->keys(peer)).first->second;
    for (int i = 0; i < kExpected; ++i) expect(peer, edge, Bytes(kPieceBytes));
  }
}

void TcpTransport::send(Rank to, Bytes bytes) {
  owner_.check();
  if (!connected_) return start_->send(to, std::move(bytes));
  const auto found = edges_.find(to);
  RUEDA_ASSERT(found != edges_.end());
  if (bytes.size() > kMostBytes)
    throw std::runtime_error(
        fmt::format("rank {} has a control message of {} bytes for rank {}; {} may be sent", rank_,
                    bytes.size(), to, kMostBytes));
  retire(found->second);
  std::size_t begin = 0;
  for (; bytes.size() - begin > kData; begin += kData) {
    Bytes piece(bytes.begin() + static_cast<std::ptrdiff_t>(begin),
                bytes.begin() + static_cast<std::ptrdiff_t>(begin + kData));
    piece.push_back(kMore);
    post(to, found->second, std::move(piece));
  }
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(begin));
  bytes.push_back(kEnd);
  post(to, found->second, std::move(bytes));
  link_->write();
}

// A message for a rank that has ended is dropped: lost() tells.
void TcpTransport::post(Rank peer, Edge& edge, Bytes piece) {
  if (link_->failure(peer)) return;
  piece.resize(piece.size() + RecordCipher::kTagBytes);
  edge.sealer.seal({}, piece);
  Piece& posted = edge.sending.emplace_back(0, std::move(piece));
  posted.ticket = link_->post_send(peer, posted.bytes, kControlTag);
}

void TcpTransport::expect(Rank peer, Edge& edge, Bytes room) {
  if (link_->failure(peer)) return;
  Piece& posted = edge.receiving.emplace_back(0, std::move(room));
  posted.ticket = link_->post_receive(peer, posted.bytes, kControlTag);
}

void TcpTransport::retire(Edge& edge) {
  while (!edge.sending.empty() && link_->over(edge.sending.front().ticket)) {
    static_cast<void>(link_->done(edge.sending.front().ticket));
    edge.sending.pop_front();
  }
}

std::optional<Envelope> TcpTransport::receive() {
  owner_.check();
  if (!connected_) return start_->receive();
  if (arrived_.empty()) {
    link_->progress();
    for (auto& [peer, edge] : edges_) take_pieces(peer, edge);
  }
  if (arrived_.empty()) return std::nullopt;
  Envelope envelope = std::move(arrived_.front());
  arrived_.pop_front();
  return envelope;
}

void TcpTransport::take_pieces(Rank peer, Edge& edge) {
  while (!edge.receiving.empty() && link_->over(edge.receiving.front().ticket)) {
    Piece piece = std::move(edge.receiving.front());
    edge.receiving.pop_front();
    const std::size_t came = link_->done(piece.ticket).value_or(0);
    take(peer, edge, MutableBytes(piece.bytes).first(came));
    expect(peer, edge, std::move(piece.bytes));
  }
}

void TcpTransport::take(Rank peer, Edge& edge, MutableBytes sealed) {
  if (!edge.opener.open({}, sealed))
    throw std::runtime_error(
        fmt::format("rank {} received a control message of {} bytes that rank {} has not sent: somebody "
                    "changes them on their way",
                    rank_, sealed.size(), peer));
  add(peer, edge, sealed.first(sealed.size() - RecordCipher::kTagBytes));
}

void TcpTransport::add(Rank peer, Edge& edge, ConstBytes piece) {
  const std::byte kind = piece.empty() ? std::byte{255} : piece.back();
  const std::size_t bytes = piece.empty() ? 0 : piece.size() - 1;
  if (kind > kFarewell || edge.farewell || edge.message.size() + bytes > kMostBytes)
    throw std::runtime_error(
        fmt::format("rank {} cannot read what rank {} sends: {} bytes of kind {} after {} of a control "
                    "message. Both must run the same version of Rueda",
                    rank_, peer, bytes, static_cast<int>(kind), edge.message.size()));
  edge.message.insert(edge.message.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(bytes));
  edge.farewell = kind == kFarewell;
  if (kind == kEnd) arrived_.push_back({peer, std::exchange(edge.message, {})});
}

std::vector<Rank> TcpTransport::lost(Time now) {
  std::vector<Rank> lost;
  if (start_) lost = start_->lost(now);
  for (auto& [peer, edge] : edges_) {
    const std::optional<std::string>& failure = link_->failure(peer);
    if (!failure || edge.farewell || std::exchange(edge.told, true)) continue;
    if (!failure->empty()) throw std::runtime_error(*failure);
    if (std::ranges::find(lost, peer) == lost.end()) lost.push_back(peer);
  }
  return lost;
}

// The words of the end are on their way then; nobody closes a connection while they are.
void TcpTransport::say_farewell() {
  for (auto& [peer, edge] : edges_) post(peer, edge, {kFarewell});
  const Time end = clock_now() + kTimeout;
  for (bool waiting = true; waiting && clock_now() < end;) {
    link_->progress();
    waiting = false;
    for (auto& [peer, edge] : edges_) waiting |= !parted(peer, edge);
    if (waiting) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

bool TcpTransport::parted(Rank peer, Edge& edge) {
  take_pieces(peer, edge);
  retire(edge);
  return link_->failure(peer) || (edge.farewell && edge.sending.empty());
}

}  // namespace rueda
