// SPDX-License-Identifier: Apache-2.0
// Well-formed control messages of every kind, for tests of their reader.
#pragma once

#include <string>
#include <vector>

#include "core/control/messages/control_message.h"

namespace rueda {

Request some_request(const std::string& name);
std::vector<Message> message_samples();

}  // namespace rueda
