"""Sweep on a local cluster of two processes and kill one of them in the middle, or let the scheduler
go: a program of its own, because it starts processes. Writes the rows to the file that is named."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from ptosim.ground.errors import UsageError
from ptosim.tools.search import engines
from ptosim.tools.search.sweep import work
from tests.tools.search.test_sweep import small


class Killing(engines.Cluster):
    """Kills a worker when two results are there."""

    def map(self, work_, jobs):  # type: ignore[no-untyped-def]
        """Yield results as the cluster does."""
        pids = sorted(self._client.run(os.getpid).values())
        for count, found in enumerate(super().map(work_, jobs)):
            yield found
            if count == 1 and "scheduler" in sys.argv:
                self._cluster.close()
            elif count == 1:
                os.kill(pids[0], signal.SIGKILL)
                print("killed", pids[0])


if __name__ == "__main__":
    assert work
    engines.Cluster = Killing  # type: ignore[misc]
    try:
        found = small(cluster="local:2", store=f"{sys.argv[1]}.store")
    except UsageError as problem:
        sys.exit(str(problem))
    Path(sys.argv[1]).write_text(json.dumps(found.rows))
