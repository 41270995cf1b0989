// SPDX-License-Identifier: Apache-2.0
#include "ops/bootstrap/star/star_door.h"

#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <iterator>
#include <random>
#include <system_error>
#include <utility>

#include "ops/sockets/tcp_socket.h"

namespace rueda {
namespace {

constexpr auto kGreeting = std::chrono::seconds(5);  // a guest may take to prove itself
constexpr std::size_t kMostGuests = 256;             // besides the ranks that are due
constexpr int kGuestsAtOnce = 64;

}  // namespace

StarDoor::StarDoor(StarListener listener, Rank size, Duration deadline)
    : listener_(std::move(listener)),
      most_guests_(kMostGuests + static_cast<std::size_t>(size)),
      deadline_(deadline) {}

void StarDoor::accept_guests() {
  static thread_local std::minstd_rand random(std::random_device{}());
  for (const Descriptor& listener : listener_.sockets) {
    for (int i = 0; i < kGuestsAtOnce; ++i) {
      Descriptor socket(::accept4(listener.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket) {
        if (errno == EMFILE || errno == ENFILE)
          obstacle_ =
              "no connection can be taken: " + std::generic_category().message(errno) + "; raise ulimit -n";
        break;
      }
      leave_bbr(socket);
      prepare_for_data(socket, deadline_);
      guests_.push_back(
          {StarEdge(SecureChannel::accept(std::move(socket), listener_.endpoint.secret, StarEdge::kLongest)),
           clock_now()});
      // Whoever floods the port has most of them.
      if (guests_.size() > most_guests_)
        guests_.erase(std::next(guests_.begin(), static_cast<std::ptrdiff_t>(random() % guests_.size())));
    }
  }
}

std::vector<StarEdge> StarDoor::take() {
  obstacle_.clear();
  accept_guests();
  const Time now = clock_now();
  std::vector<StarEdge> proved;
  for (auto guest = guests_.begin(); guest != guests_.end();) {
    guest->edge.channel().progress();
    const bool greeting = guest->edge.channel().state() == SecureChannel::State::greeting;
    if (greeting && now - guest->since < kGreeting) {
      ++guest;
      continue;
    }
    if (guest->edge.open()) proved.push_back(std::move(guest->edge));
    guest = guests_.erase(guest);
  }
  return proved;
}

void StarDoor::watch(PollSet& set) const {
  for (const Descriptor& listener : listener_.sockets) set.add(listener.number());
  for (const Guest& guest : guests_) guest.edge.watch(set);
}

}  // namespace rueda
