# SPDX-License-Identifier: Apache-2.0
"""The collective operations, a file for each kind. rueda.torch.mpi_ops has them all."""
