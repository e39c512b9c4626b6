"""Writes traces of GPU jobs as Kineto does, event by event, where no GPU is: a host thread that launches, and streams
that work through what they were given.

Field names are those of libkineto (output_json.cpp, ActivityType.h, MetadataFieldCatalog.h, cupti_strings.cpp) and of
torch's Python tracer. All durations are microseconds. What a trace contains follows from the calls that made it, so
that tests know the truth without asking the analysis.
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HOST = 4242
"""Process and thread of the host."""
AUTOGRAD = 4250
"""The thread in which autograd runs backward passes of devices."""
COMPUTE_STREAM, COMMUNICATION_STREAM = 7, 20
BASE_NANOSECONDS = 1_751_328_000_000_000_000
LAUNCH_US = 4.0
"""How long the host takes to start something on a device."""


class GpuTrace:
    """A trace in the making. `now` is the host's clock; each stream is free from a time of its own on."""

    def __init__(self, rank: int = 0, world_size: int = 1, device: int = 0, stacks: bool = True) -> None:
        self.now = 1000.0
        self.rank, self.world_size, self.device, self.stacks = rank, world_size, device, stacks
        self.thread = HOST
        self.free: dict[int, float] = defaultdict(float)
        self.events: list[dict[str, Any]] = []
        self._correlation = 0
        self._python: list[int] = []
        self._python_ids = 0
        self._steps = 0

    # ------------------------------------------------------------------------------------------------ the host's side

    @contextmanager
    def step(self) -> Iterator[None]:
        """A step between two calls of `profiler.step()`."""
        self._steps += 1
        with self.annotation(f"ProfilerStep#{self._steps}"):
            yield

    @contextmanager
    def annotation(self, name: str) -> Iterator[None]:
        with self._spanning("user_annotation", name, **{"External id": self._next()}):
            yield

    @contextmanager
    def operator(self, name: str, **arguments: object) -> Iterator[None]:
        with self._spanning("cpu_op", name, **{"External id": self._next(), "Record function id": 0}, **arguments):
            yield

    @contextmanager
    def forward(self) -> Iterator[None]:
        """The forward pass of a model that is wrapped for data parallelism."""
        with self.annotation("DistributedDataParallel.forward"), self.operator("aten::linear", **_recorded(0)):
            yield

    @contextmanager
    def backward(self) -> Iterator[None]:
        """A backward pass in autograd's own thread."""
        self.thread = AUTOGRAD
        with self.operator("autograd::engine::evaluate_function: AddmmBackward0", **_recorded(1)):
            yield
        self.thread = HOST

    @contextmanager
    def function(self, path: str, row: int, name: str) -> Iterator[None]:
        """A call of a Python function; `row` is where it begins."""
        with self._python_call(f"{path}({row}): {name}"):
            yield

    @contextmanager
    def method(self, name: str) -> Iterator[None]:
        """A call of a built-in method of a tensor."""
        with self._python_call(f"<built-in method {name} of Tensor object at 0x7f18ca892b20>"):
            yield

    def work(self, us: float) -> None:
        """The host is busy with what no device knows of."""
        self.now += us

    # ---------------------------------------------------------------------------------------------- the device's side

    def kernel(self, us: float, name: str = "void at::native::vectorized_elementwise_kernel<4>") -> None:
        """Launch a kernel that computes."""
        self._enqueue("cudaLaunchKernel", "kernel", name, us, COMPUTE_STREAM, **_GRID)

    def all_reduce(self, us: float, elements: int = 1_000_000) -> None:
        """Reduce over the ranks, on a stream beside the computing one, as soon as what was launched before has run."""
        self.free[COMMUNICATION_STREAM] = max(self.free[COMMUNICATION_STREAM], self.free[COMPUTE_STREAM])
        sizes = {"In msg nelems": elements, "Out msg nelems": elements, "Group size": self.world_size, "dtype": "Float"}
        groups = {"Process Group Name": "0", "Process Group Description": "default_pg"}
        name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
        collective = {"Collective name": "allreduce", **sizes, **groups}
        recorded = self.operator("record_param_comms", **sizes, **groups)
        with self.operator("c10d::allreduce_"), recorded, self.annotation("nccl:all_reduce"):
            self._enqueue("cudaLaunchKernelExC", "kernel", name, us, COMMUNICATION_STREAM, **collective, **_GRID)

    def wait_for_communication(self) -> None:
        """The computing stream goes on when the communicating one is through."""
        self.free[COMPUTE_STREAM] = max(self.free[COMPUTE_STREAM], self.free[COMMUNICATION_STREAM])
        self._call("cudaStreamWaitEvent", 1.0)

    def copy_to_device(self, us: float, size: int = 1 << 20, memory: str = "Pageable", blocks: bool = True) -> None:
        """`Tensor.to`: the host waits for the copy unless it was told not to."""
        with self.method("to"), self.operator("aten::to"), self.operator("aten::copy_"):
            self._copy(f"Memcpy HtoD ({memory} -> Device)", us, size)
            if blocks:
                self.synchronize()

    def replay(self, copies: int, us: float) -> None:
        """`CUDAGraph.replay`: one launch starts all that was recorded, here copies from pinned memory and a kernel."""
        launch = self._call("cudaGraphLaunch", 50.0)
        ids = {"correlation": launch, "device": self.device, "context": 1, "stream": COMPUTE_STREAM, "graph id": 1}
        start = max(self.now, self.free[COMPUTE_STREAM])
        works = [*[("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)")] * copies, ("kernel", "fused_kernel")]
        for category, name in works:
            self._event(category, name, self.device, COMPUTE_STREAM, start, us, {**ids, "bytes": 1024})
            start += us
        self.free[COMPUTE_STREAM] = start

    def copy_on_device(self, us: float, size: int = 1 << 20) -> None:
        """`Tensor.clone`: memory of the device to memory of the same device."""
        with self.method("clone"), self.operator("aten::clone"), self.operator("aten::copy_"):
            self._copy("Memcpy DtoD (Device -> Device)", us, size)

    def copy_to_host(self, us: float, size: int = 4) -> float:
        """A copy into pageable memory, whose call returns when it has ended, and the synchronization after it; return
        for how long the host waited."""
        started = self.now
        end = self._copy("Memcpy DtoH (Device -> Pageable)", us, size)
        waited = max(LAUNCH_US, end - started)
        self.events[-1]["dur"] = waited
        self.now = max(self.now, end)
        return waited + self.synchronize()

    def item(self) -> float:
        """`Tensor.item()`; return for how long the host waited."""
        with self.method("item"), self.operator("aten::item"), self.operator("aten::_local_scalar_dense"):
            return self.copy_to_host(1.0)

    def fill(self, us: float, size: int = 1 << 20) -> None:
        with self.operator("aten::zero_"):
            arguments = {"bytes": size, "memory bandwidth (GB/s)": 1.0}
            self._enqueue("cudaMemsetAsync", "gpu_memset", "Memset (Device)", us, COMPUTE_STREAM, **arguments)

    def synchronize(self, call: str = "cudaStreamSynchronize") -> float:
        """Wait for the computing stream; return for how long."""
        waited = max(1.0, self.free[COMPUTE_STREAM] - self.now)
        self._call(call, waited)
        return waited

    # ------------------------------------------------------------------------------------------------------- the file

    @property
    def document(self) -> dict[str, Any]:
        properties = {"id": self.device, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85_899_345_920}
        return {
            "schemaVersion": 1,
            "deviceProperties": [{**properties, "computeMajor": 9, "computeMinor": 0, "numSms": 132}],
            "distributedInfo": {"backend": "nccl", "rank": self.rank, "world_size": self.world_size},
            "displayTimeUnit": "ms",
            "baseTimeNanoseconds": BASE_NANOSECONDS,
            "traceEvents": self.events,
            "traceName": "trace.json",
        }

    def write(self, path: Path) -> Path:
        """Write the trace, gzipped if the name says so."""
        text = json.dumps(self.document).encode()
        path.write_bytes(gzip.compress(text, 1) if path.suffix == ".gz" else text)
        return path

    # ----------------------------------------------------------------------------------------------- single events

    def _next(self) -> int:
        self._correlation += 1
        return self._correlation

    @contextmanager
    def _spanning(self, category: str, name: str, **arguments: object) -> Iterator[None]:
        event = self._event(category, name, HOST, self.thread, self.now, 0.0, arguments)
        self.now += 0.5
        yield
        self.now += 0.5
        event["dur"] = round(self.now - event["ts"], 3)

    @contextmanager
    def _python_call(self, name: str) -> Iterator[None]:
        if not self.stacks:
            yield
            return
        self._python_ids += 1
        ids = {"Python parent id": self._python[-1] if self._python else None, "Python id": self._python_ids}
        self._python.append(self._python_ids)
        with self._spanning("python_function", name, **ids):
            yield
        self._python.pop()

    def _event(
        self, category: str, name: str, process: int, thread: int, start: float, us: float, arguments: dict[str, object]
    ) -> dict[str, Any]:
        place = {"name": name, "pid": process, "tid": thread}
        event = {"ph": "X", "cat": category, **place, "ts": round(start, 3), "dur": round(us, 3), "args": arguments}
        self.events.append(event)
        return event

    def _call(self, name: str, us: float) -> int:
        correlation = self._next()
        arguments: dict[str, object] = {"cbid": 211, "correlation": correlation}
        self._event("cuda_runtime", name, HOST, self.thread, self.now, us, arguments)
        self.now += us
        return correlation

    def _copy(self, name: str, us: float, size: int) -> float:
        arguments = {"bytes": size, "memory bandwidth (GB/s)": 1.0}
        return self._enqueue("cudaMemcpyAsync", "gpu_memcpy", name, us, COMPUTE_STREAM, **arguments)

    def _enqueue(self, call: str, category: str, name: str, us: float, stream: int, **arguments: object) -> float:
        """Ask for work on a stream; return when it will have ended. The event of the call is the last one."""
        asked = self.now
        correlation = self._correlation + 1
        start = max(asked + LAUNCH_US / 2, self.free[stream])
        self.free[stream] = start + us
        ids = {"External id": correlation, "device": self.device, "context": 1, "stream": stream}
        self._event(category, name, self.device, stream, start, us, {**ids, "correlation": correlation, **arguments})
        flow = {"ph": "s", "id": correlation, "pid": HOST, "tid": self.thread, "ts": asked, "cat": "ac2g"}
        self.events.append({**flow, "name": "ac2g"})
        self._call(call, LAUNCH_US)
        return self.free[stream]


_GRID: dict[str, object] = {
    "queued": 0,
    "registers per thread": 32,
    "shared memory": 0,
    "blocks per SM": 1.0,
    "warps per SM": 4.0,
    "grid": [128, 1, 1],
    "block": [128, 1, 1],
    "est. achieved occupancy %": 31,
}


def _recorded(forward_thread: int) -> dict[str, object]:
    """What autograd notes with an operator: on the way back, also the thread of the way forward."""
    return {"Sequence number": 17, "Fwd thread id": forward_thread}
