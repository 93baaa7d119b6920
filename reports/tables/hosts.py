"""The hosts that workers were spread over: which of them started or finished a window last, and by how much."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from common.records.training import Record
from reports.tables import columns


def table(launches: pd.DataFrame, records: Mapping[str, Record]) -> pd.DataFrame:
    """One row for each measured launch with exchange whose ranks on several hosts tell when they had their windows."""
    rows = []
    for launch in launches[launches["exchange"]].to_dict("records"):
        record = records[launch["launch"]]
        windows = _windows(record)
        if windows.empty:
            continue
        uncertainties = np.array([host.clock_uncertainty_seconds for host in record.hosts], np.float64)
        starts = windows.groupby("step")["start"]
        # Whichever two hosts had the first and the last.
        row = launch | {"uncertainty_seconds": np.sort(uncertainties)[-2:].sum()}
        row |= {"windows": starts.ngroups, "seconds": (starts.max() - starts.min()).median()}
        for column, moment in (("started_last", "start"), ("finished_last", "end")):
            latest = windows.pivot_table(index="step", columns="place", values=moment, aggfunc="max")
            names = _last(latest, uncertainties).map(lambda place, hosts=record.hosts: hosts[int(place)].name, "ignore")
            host = next(iter(names.mode()), "")
            row |= {column: host, f"{column}_share": (names == host).mean(), f"{column}_unknown": names.isna().mean()}
        rows.append(row)
    return columns.table("skews", rows)


def _windows(record: Record) -> pd.DataFrame:
    """For each clocked step of a launch over several hosts, and each rank, its host's place and its start and end.

    Seconds are by the boot clock of the machine that started the launch: what the rank's host read, less how far that
    host's clock was ahead. That offset comes from the shortest of many round trips, and is wrong by at most half of it
    (Cristian, "Probabilistic clock synchronization", 1989, section 3). Nothing comes where the record tells no clock.
    """
    rows = []
    if all(host.clock_offset_seconds is not None for host in record.hosts):
        place_of = [place for place, host in enumerate(record.hosts) for _ in range(host.workers)]
        ranks = dict(enumerate(zip(place_of, record.process_start_seconds, strict=False)))
        for window in record.windows:
            if window.rank in ranks and window.started_seconds is not None:
                place, process_start = ranks[window.rank]
                start = process_start + window.started_seconds - record.hosts[place].clock_offset_seconds
                rows.append((window.step, place, start, start + window.seconds))
    windows = pd.DataFrame(rows, columns=["step", "place", "start", "end"])
    return windows[windows.groupby("step")["place"].transform("nunique") > 1]


def _last(latest: pd.DataFrame, uncertainties: np.ndarray) -> pd.Series:
    """The place whose time is the latest beyond what both clocks may be wrong by; NaN where that isn't sure.

    `latest` has a row for each window and a column for each place.
    """
    last = latest.idxmax(axis=1)
    ahead = latest.rsub(latest.max(axis=1), axis=0)
    doubt = np.add.outer(uncertainties[last], uncertainties[latest.columns])
    is_itself = np.equal.outer(last.to_numpy(), latest.columns.to_numpy())
    return last.where(((ahead > doubt) | is_itself | latest.isna()).all(axis=1))
