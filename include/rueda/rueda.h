// SPDX-License-Identifier: Apache-2.0
// Everything a program needs to run operations: the front door and init().
#pragma once

#include "core/rueda.h"
#include "ops/setup/init.h"
