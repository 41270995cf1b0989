// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/network_facts.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <sstream>
#include <string_view>
#include <thread>
#include <utility>

#include "core/base/system/address_digits.h"

namespace rueda {
namespace {

constexpr std::size_t kMostCards = 16;  // as ranks use them
constexpr std::size_t kMostAddresses = 16;

std::int32_t number_in(const std::filesystem::path& file) {
  std::int32_t number = 0;
  std::ifstream(file) >> number;
  return std::max(0, number);
}

bool is_address(const std::string& text) {
  in6_addr address{};
  return ::inet_pton(AF_INET, text.c_str(), &address) == 1 ||
         ::inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

struct NamedAddress {
  agents::CardFacts card;
  bool is_loopback = false;
  bool is_v4 = false;
};

// All addresses of cards that are up.
std::vector<NamedAddress> all_addresses() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(first, ::freeifaddrs);
  std::vector<NamedAddress> all;
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_UP) == 0) continue;
    std::string address = digits_of(each->ifa_addr);
    if (address.empty()) continue;
    const auto folder = std::filesystem::path("/sys/class/net") / each->ifa_name;
    all.push_back({{each->ifa_name, std::move(address), 0, speed_of_card(folder), number_in(folder / "mtu")},
                   (each->ifa_flags & IFF_LOOPBACK) != 0,
                   each->ifa_addr->sa_family == AF_INET});
  }
  std::ranges::stable_partition(all, &NamedAddress::is_v4);
  return all;
}

std::vector<std::string> words_by_commas(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream list(text);
  for (std::string word; std::getline(list, word, ',');)
    if (!word.empty()) words.push_back(word);
  return words;
}

agents::NameFacts look_up(const std::string& name) {
  agents::NameFacts facts{name, {}, ""};
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* first = nullptr;
  if (const int error = ::getaddrinfo(name.c_str(), nullptr, &hints, &first); error != 0) {
    facts.problem = ::gai_strerror(error);
    return facts;
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(first, ::freeaddrinfo);
  for (const addrinfo* each = first; each != nullptr && facts.addresses.size() < kMostAddresses;
       each = each->ai_next)
    if (std::string address = digits_of(each->ai_addr); !address.empty())
      facts.addresses.push_back(std::move(address));
  return facts;
}

}  // namespace

std::vector<agents::CardFacts> cards_here(const std::string& chosen) {
  const std::vector<NamedAddress> all = all_addresses();
  std::vector<agents::CardFacts> cards;
  for (const std::string& wanted : words_by_commas(chosen)) {
    const auto found = std::ranges::find_if(all, [&](const NamedAddress& each) {
      return each.card.name == wanted || each.card.address == wanted;
    });
    if (found != all.end())
      cards.push_back(found->card);
    else if (is_address(wanted))
      cards.push_back({wanted, wanted, 0, 0, 0});  // as 127.0.0.2; what is not here cannot be bound
  }
  if (!chosen.empty()) return cards;
  for (const NamedAddress& each : all)
    if (!each.is_loopback && cards.size() < kMostCards &&
        std::ranges::find(cards, each.card.name, &agents::CardFacts::name) == cards.end())
      cards.push_back(each.card);
  return cards;
}

std::vector<std::string> absent_cards(const std::string& chosen) {
  const std::vector<NamedAddress> all = all_addresses();
  std::vector<std::string> absent;
  for (const std::string& wanted : words_by_commas(chosen))
    if (!is_address(wanted) &&
        std::ranges::none_of(all, [&](const NamedAddress& each) { return each.card.name == wanted; }))
      absent.push_back(wanted);
  return absent;
}

// Drivers of virtual machines name a number that nothing keeps.
std::int32_t speed_of_card(const std::filesystem::path& folder) {
  constexpr std::array<std::string_view, 6> kVirtual{"virtio_net",   "vmxnet3", "hv_netvsc",
                                                     "xen_netfront", "vif",     "e1000"};
  std::error_code none;
  if (!std::filesystem::exists(folder / "device", none)) return 0;
  const std::string driver =
      std::filesystem::read_symlink(folder / "device" / "driver", none).filename().string();
  return std::ranges::find(kVirtual, driver) == kVirtual.end() ? number_in(folder / "speed") : 0;
}

FoundNames look_up(const std::vector<std::string>& names, std::chrono::milliseconds longest) {
  struct Shared {
    std::mutex mutex;
    std::condition_variable more;
    std::vector<agents::NameFacts> found;
    bool wanted = true;
  };
  const auto shared = std::make_shared<Shared>();
  std::thread([shared, names] {
    for (const std::string& name : names) {
      agents::NameFacts facts = look_up(name);
      const std::scoped_lock lock(shared->mutex);
      if (!shared->wanted) return;
      shared->found.push_back(std::move(facts));
      shared->more.notify_one();
    }
  }).detach();
  std::unique_lock lock(shared->mutex);
  shared->more.wait_for(lock, longest, [&] { return shared->found.size() == names.size(); });
  shared->wanted = false;
  return {shared->found, static_cast<std::int32_t>(names.size() - shared->found.size())};
}

bool is_loopback(const std::string& address) { return address.starts_with("127.") || address == "::1"; }

std::vector<agents::NameFacts> doubtful(const std::vector<agents::NameFacts>& names, std::size_t most) {
  std::vector<agents::NameFacts> found;
  for (const agents::NameFacts& each : names)
    if (found.size() < most && (!each.problem.empty() || std::ranges::any_of(each.addresses, is_loopback)))
      found.push_back(each);
  return found;
}

std::int32_t infiniband_devices() {
  std::error_code none;
  const std::filesystem::directory_iterator devices("/sys/class/infiniband", none);
  return none ? 0 : static_cast<std::int32_t>(std::distance(begin(devices), end(devices)));
}

}  // namespace rueda
