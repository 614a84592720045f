# SPDX-License-Identifier: Apache-2.0

"""Runs a folder of prepared cases under one release of onnxruntime, on its CPU provider, at every optimisation level.

Usage: python runner.py FOLDER ROWS [--workers N]. It needs nothing but onnxruntime and numpy. ROWS becomes a file of
one JSON object per line and per case, level and model: the outcome and a message. Models run in worker processes; where
one dies or hangs, that is the model's outcome, and the next model runs in a new worker.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Any

import numpy as np

Arrays = dict[str, Any]
LEVELS = ("disabled", "basic", "extended", "default")
ORIGINAL = "original"
RUNS = ("first", "second")
SECONDS = 120
"""After which a model hangs."""
FILL = "165"
"""What fresh memory is filled with (`MALLOC_PERTURB_` of glibc), so that values that nothing wrote are never zero."""


def main() -> None:
    """Run as the parent, or as one of its workers."""
    parser = argparse.ArgumentParser(description="Run prepared cases under this interpreter's onnxruntime.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("rows", type=Path, nargs="?")
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    if arguments.rows is None:
        work(arguments.folder)
    else:
        run_all(arguments.folder, arguments.rows, arguments.workers)


# The parent.


def run_all(folder: Path, rows: Path, workers: int) -> None:
    """Run every case at every level, and write the rows."""
    cases = json.loads((folder / "cases.json").read_text(encoding="utf-8"))
    jobs: queue.SimpleQueue[tuple[int, str]] = queue.SimpleQueue()
    for number in range(len(cases)):
        for level in LEVELS:
            jobs.put((number, level))
    lock = threading.Lock()
    with rows.open("w", encoding="utf-8") as out:

        def serve() -> None:
            worker = Worker(folder)
            while True:
                try:
                    number, level = jobs.get_nowait()
                except queue.Empty:
                    worker.stop()
                    return
                for row in worker.run(cases[number], number, level):
                    with lock:
                        out.write(json.dumps(row) + "\n")

        threads = [threading.Thread(target=serve) for _ in range(workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


class Worker:
    """A process that runs jobs; another one takes its place when it dies."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process = self._start()

    def run(self, case: dict[str, Any], number: int, level: str) -> list[dict[str, Any]]:
        """Return a row for the original, if the case has one, and for each lowered model, if the original runs."""
        models = [ORIGINAL, *case["lowered"]]
        found: dict[str, tuple[str, str]] = {}
        while len(found) < len(models):
            missing = [model for model in models if model not in found]
            found.update(self._answers(number, level, missing))
        rows = [(model, *found[model]) for model in models if found[model][0] != "skipped"]
        return [
            {"case": case["name"], "level": level, "model": model, "outcome": outcome, "message": message}
            for model, outcome, message in rows
        ]

    def stop(self) -> None:
        """End the process."""
        self._process.stdin.close()
        self._process.wait()

    def _answers(self, number: int, level: str, models: list[str]) -> dict[str, tuple[str, str]]:
        """What became of the models, up to the first one that killed the process."""
        answers: dict[str, tuple[str, str]] = {}
        hung = threading.Event()

        def end() -> None:
            hung.set()
            self._process.kill()

        timer = threading.Timer(SECONDS, end)
        timer.start()
        self._process.stdin.write(json.dumps([number, level, models]) + "\n")
        self._process.stdin.flush()
        for model in models:
            line = self._process.stdout.readline()
            if not line:
                code = self._process.wait()
                answers[model] = ("hangs", f"longer than {SECONDS} s") if hung.is_set() else ("crashes", f"code {code}")
                if model == ORIGINAL:
                    answers.update(dict.fromkeys(models[1:], ("skipped", "")))
                self._process = self._start()
                break
            outcome, message = json.loads(line)
            answers[model] = (outcome, message)
        timer.cancel()
        return answers

    def _start(self) -> Any:
        return subprocess.Popen(
            [sys.executable, __file__, str(self._folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "MALLOC_PERTURB_": FILL},
        )


# A worker.


def work(folder: Path) -> None:
    """Answer each job on standard input by a line per model."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    cases = json.loads((folder / "cases.json").read_text(encoding="utf-8"))
    for line in sys.stdin:
        number, level, models = json.loads(line)
        run_models(folder, cases[number], level, models, answers)


def run_models(folder: Path, case: dict[str, Any], level: str, models: list[str], answers: IO[str]) -> None:
    """Run the original and then the models; answer each as soon as it has run."""
    feeds = arrays(folder / case["feeds"])
    expected, answer = run_original(folder, case, feeds, level)
    for model in models:
        if model != ORIGINAL:
            answer = run_lowered(folder / model, feeds, level, expected) if expected else ("skipped", "")
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def run_original(folder: Path, case: dict[str, Any], feeds: Arrays, level: str) -> tuple[Arrays, tuple[str, str]]:
    """The expected results, which are none unless the original runs, and what became of it."""
    recorded = arrays(folder / case["recorded"]) if case["recorded"] else {}
    if not case["original"]:
        return recorded, ("runs", "")
    try:
        first, second = run(folder / case["original"], feeds, level)
    except Exception as error:
        return {}, ("fails", f"{type(error).__name__}: {error}")
    if message := difference(second, first):
        return {}, ("unstable", message)
    return recorded or first, ("runs", "")


def run_lowered(model: Path, feeds: Arrays, level: str, expected: Arrays) -> tuple[str, str]:
    """What became of a lowered model: `same`, or `differs` or `fails` and a message."""
    try:
        found = run(model, feeds, level)
    except Exception as error:
        return "fails", f"{type(error).__name__}: {error}"
    for number, results in zip(RUNS, found, strict=True):
        if message := difference(results, expected):
            return "differs", f"{number} run: {message}"
    return "same", ""


def arrays(path: Path) -> Arrays:
    """The arrays of an npz file."""
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def run(model: Path, feeds: Arrays, level: str) -> list[Arrays]:
    """The outputs by name of two runs of one session. Beside the level, only threads and logging are set."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    if level != "default":
        names = {"disabled": "ORT_DISABLE_ALL", "basic": "ORT_ENABLE_BASIC", "extended": "ORT_ENABLE_EXTENDED"}
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, names[level])
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    outputs = [value.name for value in session.get_outputs()]
    given = {value.name: feeds[value.name] for value in session.get_inputs()}
    return [run_once(session, number, outputs, given) for number in RUNS]


def run_once(session: Any, number: str, outputs: list[str], feeds: Arrays) -> Arrays:
    """The outputs by name. An error says which run of the session it is."""
    try:
        return dict(zip(outputs, session.run(outputs, feeds), strict=True))
    except Exception as error:
        raise RuntimeError(f"{number} run: {error}") from error


def difference(found: Arrays, expected: Arrays) -> str:
    """What differs, bit for bit, but that one NaN is as good as another; empty where nothing does."""
    if found.keys() != expected.keys():
        return f"outputs {sorted(found)}, expected {sorted(expected)}"
    for name, value in expected.items():
        other = found[name]
        if (other.dtype, other.shape) != (value.dtype, value.shape):
            return f"{name}: {other.dtype}{list(other.shape)}, expected {value.dtype}{list(value.shape)}"
        differs = bits(other) != bits(value)
        if value.dtype.kind == "f":
            differs &= ~(np.isnan(other) & np.isnan(value)).reshape(-1)
        if differs.any():
            first = int(differs.argmax())
            count = f"{int(differs.sum())} of {differs.size} elements differ"
            return f"{name}: {count}, [{first}] {other.flat[first]}, expected {value.flat[first]}"
    return ""


def bits(array: Any) -> Any:
    """The elements in order, as unsigned integers of the same width."""
    return np.ascontiguousarray(array).reshape(-1).view(f"u{array.dtype.itemsize}")


if __name__ == "__main__":
    main()
