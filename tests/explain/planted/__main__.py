"""Print what is wrong with each planted cause, and its two lines: `python -m tests.explain.planted [WORD]`.

With `--known` it writes the table that `tests/explain/planted/known_misses.py` holds, with `--files` it asks no server,
with `--events` the scheduler alone.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

from tests.explain.planted import ROWS, mended
from tests.explain.planted.judging import faults, fits, live_all, of_files


def main(*words: str) -> None:
    is_table = "--known" in words
    only_files, only_events = "--files" in words, "--events" in words
    wanted = [word for word in words if not word.startswith("-")]
    names = [name for name in ROWS if all(word in name for word in wanted)]
    asked = [ROWS[name] for name in names if not ROWS[name].unserved]
    served = {} if only_files else asyncio.run(live_all(asked, asks_explain=not only_events))
    by_bullet: dict[str, list[bool]] = defaultdict(list)
    kinds: Counter[str] = Counter()
    known: list[str] = []
    for name in names:
        row = ROWS[name]
        with tempfile.TemporaryDirectory() as folder:
            told = {} if only_events else {"files": of_files(row, Path(folder, "objects.json"))}
        if name in served:
            told |= ({} if only_events else {"online": served[name][1]}) | (
                {} if row.unheard else {"event": served[name][0]}
            )
        wrong = {channel: list(faults(row, one, channel)) for channel, one in told.items()}
        kinds.update(f"{channel} {fault}" for channel, all_ in wrong.items() for fault in all_)
        by_bullet[row.bullet].append(not any(set(all_) - {"kind"} for all_ in wrong.values()))
        parts = [f"{channel} {' '.join(all_)}" for channel, all_ in sorted(wrong.items()) if all_]
        text = '; "\n        "'.join(parts)
        known += [f'    "{name}": (\n        "{text}"\n    ),\n'] if text else []
        problems = []
        if not row.unheard and fits(row, row.objects) != row.fits:
            problems.append("PLANT: it fits" if not row.fits else "PLANT: it does not fit")
        if not row.fits and not fits(row, mended(row)):
            problems.append("PLANT: mended, it does not fit")
        if problems or any(set(all_) - {"kind"} for all_ in wrong.values()):
            print(f"\n## {name} ({row.bullet}) {' '.join(problems)}")
            print(
                f"   wanted: object /{row.object}/ says {list(row.says)} change {list(row.change)}"
                f" never {list(row.never)}"
            )
            for channel, one in told.items():
                print(f"   {channel:7}{' '.join(wrong[channel]) or 'ok'}\n      {one.lines[0]}\n      {one.lines[1]}")
    print("\nBULLET\tPASS\tOF\t(kinds in brackets left aside)")
    for bullet, passes in by_bullet.items():
        print(f"{bullet}\t{sum(passes)}\t{len(passes)}")
    print(f"all\t{sum(map(sum, by_bullet.values()))}\t{len(names)}")
    print(dict(kinds))
    if is_table:
        table = Path(__file__).with_name("known_misses.py")
        head = table.read_text().partition(" = {")[0]
        table.write_text(f"{head} = {{\n{''.join(known)}}}\n")


main(*sys.argv[1:])
