// SPDX-License-Identifier: Apache-2.0
// Rank 0 and other ranks of a star over loopback, for tests in one process.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "ops/bootstrap/star/star_transport.h"
#include "tests/support/worlds/tcp_pair.h"

namespace rueda {

// An endpoint that threads share, as a store would hold it. A thread that looks for it may outlive the test.
struct Board {
  struct Shared {
    std::mutex mutex;
    std::optional<TcpEndpoint> endpoint;
    bool retired = false;
  };
  std::shared_ptr<Shared> shared = std::make_shared<Shared>();
  std::mutex& mutex = shared->mutex;
  std::optional<TcpEndpoint>& endpoint = shared->endpoint;
  bool& retired = shared->retired;
};

class BoardAddress final : public RootAddress {
 public:
  explicit BoardAddress(const Board& board) : board_(board.shared) {}
  void publish(const TcpEndpoint& endpoint) override {
    std::lock_guard lock(board_->mutex);
    board_->endpoint = endpoint;
  }
  std::optional<TcpEndpoint> look() override {
    std::lock_guard lock(board_->mutex);
    return board_->endpoint;
  }
  void retire() override {
    std::lock_guard lock(board_->mutex);
    board_->retired = true;
  }
  std::string in_words() const override { return "the board"; }

 private:
  std::shared_ptr<Board::Shared> board_;
};

inline constexpr auto kSilence = std::chrono::seconds(10);

inline StarListener star_listener() {
  OpenedSocket opened = listen_at(kTestAddress);
  StarListener listener;
  listener.endpoint = {random_key(), {address_of(opened.socket, kTestAddress)}};
  listener.sockets.push_back(std::move(opened.socket));
  return listener;
}

inline std::unique_ptr<StarRoot> make_root(const Board& board, Rank size, const std::string& job = "job") {
  return std::make_unique<StarRoot>(StarMember{0, size, job}, star_listener(),
                                    std::make_unique<BoardAddress>(board), kSilence);
}

// `listener`: where it relays; without sockets it does not.
inline std::unique_ptr<StarLeaf> make_leaf(const Board& board, Rank rank, Rank size,
                                           const std::string& job = "job", StarListener listener = {}) {
  return std::make_unique<StarLeaf>(StarMember{rank, size, job}, std::make_unique<BoardAddress>(board),
                                    kSilence, std::move(listener));
}

inline Bytes text(const std::string& words) {
  const auto bytes = std::as_bytes(std::span(words));
  return {bytes.begin(), bytes.end()};
}

}  // namespace rueda
