// SPDX-License-Identifier: Apache-2.0
// How an endpoint travels through a store, and what is no endpoint.
#include "ops/bootstrap/address/root_address.h"

#include <gtest/gtest.h>

#include <map>

namespace rueda {
namespace {

class MapStore final : public KeyValueStore {
 public:
  void set(const std::string& key, const std::string& value) override { values[key] = value; }
  std::optional<std::string> get(const std::string& key) override {
    const auto found = values.find(key);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  }
  void remove(const std::string& key) override { values.erase(key); }
  std::string in_words() const override { return "a map"; }

  std::map<std::string, std::string> values;
};

TEST(RootAddress, AnEndpointGoesThroughAStore) {
  auto store = std::make_shared<MapStore>();
  const auto root = address_in_store(store, "key"), leaf = address_in_store(store, "key");
  EXPECT_FALSE(leaf->look());
  const TcpEndpoint endpoint{random_key(), {{"10.0.0.1", 4242}, {"fd00::2", 1}}};
  root->publish(endpoint);
  EXPECT_EQ(leaf->look(), endpoint);
  for (const char letter : store->values.at("key")) EXPECT_TRUE(std::isxdigit(letter));
  root->retire();
  EXPECT_FALSE(leaf->look());
}

TEST(RootAddress, WhatIsNoEndpointIsLookedAtAgain) {
  auto store = std::make_shared<MapStore>();
  const auto leaf = address_in_store(store, "key");
  address_in_store(store, "whole")->publish({random_key(), {{"10.0.0.1", 4242}}});
  const std::string whole = store->values.at("whole");
  for (const std::string& value :
       {std::string(), std::string("zz"), whole.substr(2), whole + "00", whole + "0"}) {
    store->values["key"] = value;
    EXPECT_FALSE(leaf->look()) << value;
  }
}

TEST(RootAddress, AKnownAddressIsResolved) {
  const TcpSecret secret = random_key();
  const std::optional<TcpEndpoint> found = known_address("127.0.0.1", 4242, secret)->look();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->secret, secret);
  EXPECT_EQ(found->addresses, (std::vector<TcpAddress>{{"127.0.0.1", 4242}}));
  EXPECT_EQ(addresses_of("::1", 7), (std::vector<TcpAddress>{{"::1", 7}}));
}

}  // namespace
}  // namespace rueda
