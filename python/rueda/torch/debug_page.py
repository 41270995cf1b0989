# SPDX-License-Identifier: Apache-2.0
"""The operations of Rueda's groups on the page of torch.distributed.debug.

    from torch.distributed.debug import start_debug_server
    from torch.distributed.debug._debug_handlers import default_handlers
    from rueda.torch.debug_page import GroupsHandler

    start_debug_server(handlers=[*default_handlers(), GroupsHandler()])
"""

import rueda.torch.distributed  # noqa: F401 - serves the record of this process
from torch.distributed.debug._debug_handlers import FlightRecorderHandler
from torch.distributed.debug._frontend import NavLink, Route, fetch_all

__all__ = ["GroupsHandler"]


class GroupsHandler(FlightRecorderHandler):
    """The records of all ranks, compared as torchfrtrace does, and as JSON. Needs TORCH_FR_BUFFER_SIZE."""

    RECORD = "rueda_trace_json"  # the name of the handler of each rank's server

    def routes(self):
        return [Route("/rueda", self._compared), Route("/rueda_json", self._as_json)]

    def nav_links(self):
        return [NavLink("/rueda", "Rueda"), NavLink("/rueda_json", "(JSON)")]

    def _compared(self, request):
        addresses, responses = fetch_all(self.RECORD)
        return self._render_tables(request.frontend, addresses, list(responses))

    def _as_json(self, request):
        addresses, responses = fetch_all(self.RECORD)
        return request.frontend.render_template("json_resp.html", title="Rueda", addrs=addresses, resps=responses)

    def dump(self):
        addresses, responses = fetch_all(self.RECORD)
        return "\n".join(f"{address}: {response.text}" for address, response in zip(addresses, responses))

    def dump_filename(self):
        return "rueda"
