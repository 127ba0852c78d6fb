"""Whether a figure grows with time, beyond what it scatters by itself. Pure: series in, slopes out.

All parts of a series, which is cut where the job was started again, have one slope and each a level of its own: least
squares. What lies beside the line is not independent from one sample to the next (a heap fills and is collected), so
the samples count as so many fewer as their residuals' correlation with the next ones says; and the fewer they are, the
more standard errors it takes to call it growth, as Student's distribution has it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

SIGMAS = 3.0
"""Of many samples. Where nothing grows or falls, one of twenty figures is beyond that in one of twenty runs."""
_MOST_CORRELATED = 0.99
_HOUR = 3600.0
_FEWEST = 4
"""Samples more than parts."""

_Column = np.ndarray[tuple[int], np.dtype[np.float64]]
Points = Sequence[tuple[float, float]]
"""Time (s) and value."""


@dataclass(frozen=True)
class Slope:
    """Of one figure."""

    mean: float
    per_hour: float
    noise: float
    """By so much ``per_hour`` may be off 0 where nothing grows: ``SIGMAS`` standard errors, more of few samples."""
    samples: int
    verdict: str
    """``grows``, ``falls``, or ``within noise``."""


def slope_of(parts: Sequence[Points]) -> Slope | None:
    """None: there are too few samples to say."""
    parts = [part for part in parts if len(part) > 1]
    samples = sum(map(len, parts))
    if samples < len(parts) + _FEWEST:
        return None
    times, values = ([_centred(part, index) for part in parts] for index in (0, 1))
    time, value = np.concatenate(times), np.concatenate(values)
    spread = float(time @ time)
    slope = float(time @ value) / spread
    residuals = [part_values - slope * part_times for part_times, part_values in zip(times, values, strict=True)]
    beside = np.concatenate(residuals)
    error = math.sqrt(float(beside @ beside) / (samples - len(parts) - 1) / spread)
    fewer = _independent_share(residuals)
    noise = error / math.sqrt(fewer) * _sigmas(max(1.0, samples * fewer - len(parts) - 1))
    per_hour, noise_per_hour = slope * _HOUR, noise * _HOUR
    verdict = "within noise" if abs(slope) <= noise else "grows" if slope > 0 else "falls"
    mean = float(np.mean(np.concatenate([[point[1] for point in part] for part in parts])))
    return Slope(_digits(mean), _digits(per_hour), _digits(noise_per_hour), samples, verdict)


def _centred(part: Points, index: int) -> _Column:
    column = np.array([point[index] for point in part], dtype=np.float64)
    return column - column.mean()


def _independent_share(residuals: Sequence[_Column]) -> float:
    """Of samples whose correlation with the next one is r: (1 - r) / (1 + r)."""
    square = sum(float(part @ part) for part in residuals)
    if not square:
        return 1.0
    correlation = sum(float(part[:-1] @ part[1:]) for part in residuals) / square
    bounded = min(_MOST_CORRELATED, max(0.0, correlation))
    return (1 - bounded) / (1 + bounded)


def _sigmas(freedom: float) -> float:
    """Of Student's distribution with so many degrees of freedom what ``SIGMAS`` are of the normal: by its expansion."""
    z = SIGMAS
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def _digits(number: float) -> float:
    """Four that count."""
    return float(f"{number:.4g}")
