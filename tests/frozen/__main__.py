"""`python -m tests.frozen`: what users get, compared with what was frozen.

Exits 1 where something differs. `--write` freezes anew what is now, `--only WORD` takes programs
with the word in their path, `--show PROGRAM THING` prints one thing as it is digested, so that two
checkouts can be compared by a text comparison. A commit that changes a digest says why."""

from __future__ import annotations

import argparse
import sys

from tests.frozen import loaded
from tests.frozen.digests import compute, differences, read, write
from tests.frozen.things import programs, things_of
from tests.frozen.workers import pinned


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.frozen", description=__doc__)
    parser.add_argument("--write", action="store_true", help="freeze what is now")
    parser.add_argument("--only", default="", metavar="WORD", help="programs with it in their path")
    parser.add_argument("--show", nargs=2, metavar=("PROGRAM", "THING"), help="print one thing")
    parser.add_argument("-j", type=int, default=2, dest="jobs", help="processes (default: 2)")
    options = parser.parse_args()
    pinned()
    if options.show:
        path, wanted = options.show
        kind = dict(programs())[path]
        print(next(text for name, text in things_of(path, kind) if name == wanted))
        return 0
    found = compute([p for p in programs() if options.only in p[0]], options.jobs)
    if options.write:
        kept = {k: v for k, v in read().items() if options.only not in k[0]}
        write({**kept, **found})
        loaded.write()
        print(f"{len(found):,} digests of {len({p for p, _ in found}):,} programs")
        return 0
    wrong = differences(found, read(), options.only)
    for line in wrong:
        print(line)
    print(f"{len(found):,} things, {len(wrong):,} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
