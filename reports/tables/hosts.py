"""The hosts that workers were spread over: links, bytes sent, and which host started or finished a window last."""

import math
from collections.abc import Iterator, Mapping, Sequence

import pandas as pd
from msgspec import structs

from common.records.header import Host
from common.records.training import Record
from reports.tables import columns


def table(launches: pd.DataFrame, records: Mapping[str, Record]) -> pd.DataFrame:
    """One row for each host of each measured launch that names any, in the order of the ranks.

    `launches` are those of `summaries`.
    """
    rows = []
    for launch in launches.to_dict("records"):
        record = records[launch["launch"]]
        waiting = _waiting(record)
        about = {"round_trip_seconds": record.link.round_trip_seconds if record.link else math.nan}
        sent = record.host_bytes_per_step or [math.nan] * len(record.hosts)
        for host, host_bytes, last in zip(record.hosts, sent, waiting["by_host"], strict=True):
            known = {"host": host.name, "host_workers": host.workers, "sent_bytes": host_bytes}
            rows.append(structs.asdict(host) | launch | about | known | waiting["of_all"] | last)
    return columns.table("hosts", rows)


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


def _waiting(record: Record) -> dict[str, object]:
    """What the windows of a launch tell of its hosts: `of_all` of them together, `by_host` of each."""
    windows = list(starts_and_ends(record))
    uncertainties = [clock_uncertainty(host) for host in record.hosts]
    skews = [max(start for _, start, _ in window) - min(start for _, start, _ in window) for window in windows]
    starts = [_last([(place, start) for place, start, _ in window], uncertainties) for window in windows]
    ends = [_last([(place, end) for place, _, end in window], uncertainties) for window in windows]
    of_all = {
        "windows": len(windows),
        "skew_seconds": float(pd.Series(skews, dtype=float).median()),
        # Whichever two hosts had the first and the last of a window.
        "skew_uncertainty_seconds": sum(sorted(uncertainties)[-2:]) if windows else math.nan,
    }
    by_host = [
        {"started_last": starts.count(place), "finished_last": ends.count(place)} for place in range(len(record.hosts))
    ]
    return {"of_all": of_all, "by_host": by_host}


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
