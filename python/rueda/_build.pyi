# SPDX-License-Identifier: Apache-2.0
TORCH_VERSION: str
RUEDARUN: str
