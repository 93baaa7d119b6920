"""The hosts that workers were spread over: which of them started or finished a window last, and by how much."""

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from common.records.header import Host
from common.records.training import Record
from reports.tables import columns


def table(launches: pd.DataFrame, records: Mapping[str, Record]) -> pd.DataFrame:
    """One row for each measured launch with exchange whose ranks on several hosts tell when they had their windows."""
    rows = []
    for launch in launches[launches["exchange"]].to_dict("records"):
        record = records[launch["launch"]]
        windows, uncertainties = [*starts_and_ends(record)], [clock_uncertainty(host) for host in record.hosts]
        if windows:
            skews = [max(start for _, start, _ in own) - min(start for _, start, _ in own) for own in windows]
            starts = [_last([(place, start) for place, start, _ in own], uncertainties) for own in windows]
            ends = [_last([(place, end) for place, _, end in own], uncertainties) for own in windows]
            about = {"windows": len(windows), "seconds": statistics.median(skews)}
            # Whichever two hosts had the first and the last.
            about |= {"uncertainty_seconds": sum(sorted(uncertainties)[-2:])}
            last = _most_often("started_last", starts, record) | _most_often("finished_last", ends, record)
            rows.append(launch | about | last)
    return columns.table("skews", rows)


def _most_often(column: str, places: Sequence[int | None], record: Record) -> dict[str, object]:
    """The host that was surely the last most often, and of which share of the windows."""
    counts = Counter(record.hosts[place].name for place in places if place is not None)
    host, count = counts.most_common(1)[0] if counts else ("", 0)
    return {column: host, f"{column}_share": count / len(places), f"{column}_unknown": places.count(None) / len(places)}


def starts_and_ends(record: Record) -> Iterator[list[tuple[int, float, float]]]:
    """For each clocked window of a launch over several hosts who started and finished it when: a list of the host's
    place in `record.hosts`, the start and the end, with an entry for each rank.

    Seconds are by the boot clock of the machine that started the launch: what the rank's host read, less how far that
    host's clock was ahead. That offset comes from the shortest of many round trips, and is wrong by at most half of it
    (Cristian, "Probabilistic clock synchronization", 1989, section 3). Nothing comes where the record tells no clock.
    """
    place_of = [place for place, host in enumerate(record.hosts) for _ in range(host.workers)]
    if len(record.hosts) < 2 or any(host.clock_offset_seconds is None for host in record.hosts):
        return
    by_window: dict[int, list[tuple[int, float, float]]] = {}
    for window in record.windows:
        told = window.rank < min(len(place_of), len(record.process_start_seconds))
        if told and window.started_seconds is not None:
            place = place_of[window.rank]
            since_boot = record.process_start_seconds[window.rank] + window.started_seconds
            start = since_boot - record.hosts[place].clock_offset_seconds
            by_window.setdefault(window.step, []).append((place, start, start + window.seconds))
    for step in sorted(by_window):
        if len({place for place, *_ in by_window[step]}) > 1:
            yield by_window[step]


def clock_uncertainty(host: Host) -> float:
    return math.nan if host.clock_uncertainty_seconds is None else host.clock_uncertainty_seconds


def _last(times: Sequence[tuple[int, float]], uncertainties: Sequence[float]) -> int | None:
    """The host whose time is the latest beyond what both clocks may be wrong by; none where that isn't sure."""
    latest: dict[int, float] = {}
    for place, time in times:
        latest[place] = max(time, latest.get(place, -math.inf))
    last = max(latest, key=latest.__getitem__)
    sure = (
        latest[last] - time > uncertainties[last] + uncertainties[place]
        for place, time in latest.items()
        if place != last
    )
    return last if all(sure) else None
