// SPDX-License-Identifier: Apache-2.0
// Everything a LibTorch program needs.
#pragma once

#include "frameworks/torch/rueda_torch.h"
