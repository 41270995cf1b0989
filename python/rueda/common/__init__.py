# SPDX-License-Identifier: Apache-2.0
"""What every framework shares."""
