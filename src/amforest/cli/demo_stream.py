"""An embedded stream, for those who have none at hand: a shop's visits, as CSV.

Whether a visitor buys depends on the page, the device, the basket and the hour; from the middle on,
a sale changes what counts.
"""

from __future__ import annotations

import io
from datetime import datetime, timedelta

import numpy as np

TARGET = "buys"
N_ROWS = 20_000

_PAGES = np.array(["shoes", "books", "garden", "toys", "music"])
_DEVICES = np.array(["phone", "tablet", "desktop"])
_START = datetime(2026, 3, 1)


def demo_stream(n_rows: int = N_ROWS, seed: int = 0) -> io.BytesIO:
    """Return a file of CSV with a header; the same numbers give the same bytes."""
    rng = np.random.default_rng(seed)
    minutes = np.cumsum(rng.exponential(3.0, n_rows))
    hour = minutes / 60 % 24
    page, device = rng.choice(5, n_rows), rng.choice(3, n_rows, p=[0.6, 0.1, 0.3])
    seconds = rng.gamma(2.0, 40.0, n_rows)
    basket = np.where(rng.uniform(size=n_rows) < 0.5, 0.0, rng.gamma(1.5, 30.0, n_rows))
    on_sale = np.arange(n_rows) >= n_rows // 2
    appeal = np.where(on_sale, np.array([2, -1, 0, 1, -1])[page], np.array([0, 2, -1, 0, 1])[page])
    logit = appeal + (device == 2) + basket / 40 - 2.2 + np.where((hour > 18) & (hour < 23), 1, 0)
    buys = rng.uniform(size=n_rows) < 1 / (1 + np.exp(-3 * logit))
    gaps = rng.uniform(size=n_rows) < 0.05
    lines = ["time,page,device,seconds,basket,buys"]
    for i in range(n_rows):
        time = (_START + timedelta(minutes=float(minutes[i]))).isoformat(timespec="seconds")
        length = "" if gaps[i] else f"{seconds[i]:.1f}"
        words = f"{_PAGES[page[i]]},{_DEVICES[device[i]]}"
        lines.append(f"{time},{words},{length},{basket[i]:.2f},{'yes' if buys[i] else 'no'}")
    return io.BytesIO(("\n".join(lines) + "\n").encode())
