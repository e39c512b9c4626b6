"""GPUs are sampled through the real nvidia-ml-py; what the driver refuses becomes a reason."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from gpu_driver import built, environment

from trainlint.probe import machine, recording
from trainlint.probe.recording import GpuDevice, GpuSample, Options

SAMPLING = """
import json, sys, time
from pathlib import Path
from trainlint.probe.sampling.job import Job
from trainlint.probe.sampling.nvml import GpuSampler, NvmlUnavailableError

folder, pid, gpus, samples = Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3]), int(sys.argv[4])
job = Job(folder, pid)
job.refresh()
try:
    sampler = GpuSampler(job, folder / "samples", gpus)
except NvmlUnavailableError as error:
    print(json.dumps({"nvml": str(error)}))
    sys.exit()
for _ in range(samples):
    sampler.sample()
    time.sleep(0.02)
sampler.close()
print(json.dumps(sampler.missing))
"""

BUSY = "sample 0 80 40000 350000 1000000 1755 1000 1000 4 62.5 41 30\n"
IDLE = "sample 0 0 1000 90000 1090000 345 5001000 9001000 1 0 0 0\n"


@dataclass(frozen=True)
class Sampled:
    missing: Mapping[str, str]
    devices: tuple[GpuDevice, ...]
    samples: tuple[GpuSample, ...]

    @property
    def used(self) -> list[str]:
        """The devices of the job, as `0` or, for the second MIG instance of the first GPU, `0.1`."""
        return [short(device.uuid) for device in self.devices if device.used_by_job]


def short(uuid: str) -> str:
    kind, gpu, *_, instance = uuid.split("-")
    return f"{int(gpu, 16)}.{int(instance, 16)}" if kind == "MIG" else str(int(gpu, 16))


def full(gpu: int, instance: int | None = None) -> str:
    """The opposite of `short`."""
    return (
        f"GPU-{gpu:08x}-0000-0000-0000-000000000000"
        if instance is None
        else f"MIG-{gpu:08x}-0000-0000-0000-{instance:012x}"
    )


Sample = Callable[..., Sampled]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("driver"))


@pytest.fixture
def sample(library: Path, tmp_path: Path) -> Iterator[Sample]:
    """Samples the GPUs of a job that sleeps. `{pid}` in the script stands for its process id."""
    jobs: list[subprocess.Popen[bytes]] = []

    def run(
        script: str,
        *,
        times: int = 1,
        gpus: list[int] | None = None,
        visible: str | None = None,
        torch: list[list[str]] | None = None,
    ) -> Sampled:
        env = {name: text for name, text in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
        job = subprocess.Popen(
            ["sleep", "60"], env=env | ({} if visible is None else {"CUDA_VISIBLE_DEVICES": visible})
        )
        jobs.append(job)
        (tmp_path / "samples").mkdir()
        (tmp_path / "script").write_text(script.format(pid=job.pid))
        note_ranks(tmp_path, job.pid, torch or [])
        arguments = [str(tmp_path), str(job.pid), json.dumps(gpus), str(times)]
        done = subprocess.run(
            [sys.executable, "-c", SAMPLING, *arguments],
            env=environment(library, tmp_path / "script"),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        recording.write_manifest(tmp_path, machine.manifest("attach", [], tmp_path, Options(), tmp_path))
        found = recording.read(tmp_path)
        assert found.broken == ()
        return Sampled(json.loads(done.stdout), found.devices, found.gpu)

    yield run
    for job in jobs:
        job.kill()
        job.wait()


def note_ranks(folder: Path, pid: int, torch: list[list[str]]) -> None:
    """What the agents in the ranks say: the devices that torch sees. All ranks stand for the one process there is."""
    (folder / "processes").mkdir()
    for rank, uuids in enumerate(torch):
        devices = [{"index": index, "uuid": uuid} for index, uuid in enumerate(uuids)]
        notes = [
            {"note": "process", "pid": pid if rank == 0 else 4_000_000 + rank, "parent": 1},
            {"note": "role", "role": "rank", "rank": rank, "local_rank": rank},
            {"note": "torch", "devices": devices},
        ]
        text = "".join(f"{json.dumps(note)}\n" for note in notes)
        (folder / "processes" / f"{pid}-{rank}.notes").write_text(text)


def test_a_sample_has_the_driver_s_figures_in_the_units_of_a_recording(sample: Sample) -> None:
    found = sample(BUSY + IDLE, times=2)
    assert found.missing == {}
    (device,) = found.devices
    assert (device.index, device.name, device.used_by_job) == (0, "NVIDIA H100 80GB HBM3", True)
    assert (device.memory_total_bytes, device.power_limit_w, device.sm_clock_max_mhz) == (80 << 30, 700.0, 1980)
    busy, idle = found.samples
    assert (busy.util, busy.power_w, busy.energy_j, busy.sm_clock_mhz) == (0.8, 350.0, 1000.0, 1755)
    assert busy.memory_used_bytes == 40000 << 20, "without what the driver keeps for itself"
    assert (busy.throttle_reasons, idle.throttle_reasons) == (["sw_power_cap"], ["gpu_idle"])
    assert idle.clock > busy.clock


def test_pcie_traffic_is_counted_between_two_samples(sample: Sample) -> None:
    first, second = sample(BUSY + IDLE, times=2).samples
    assert (first.pcie_rx_bytes_per_s, first.pcie_tx_bytes_per_s) == (None, None)
    assert second.pcie_tx_bytes_per_s is not None and second.pcie_rx_bytes_per_s is not None
    assert second.pcie_rx_bytes_per_s / second.pcie_tx_bytes_per_s == pytest.approx(9 / 5, rel=0.05)
    assert second.pcie_tx_bytes_per_s * (second.clock - first.clock) == pytest.approx(5e6, rel=0.5)


def test_a_counter_of_32_bits_may_wrap_around(sample: Sample) -> None:
    before = BUSY.replace(" 1000 1000 4 ", " 1000 4294967000 4 ")
    _, second = sample(before + IDLE.replace("9001000", "704"), times=2).samples
    assert second.pcie_rx_bytes_per_s is not None
    assert second.pcie_rx_bytes_per_s * 0.02 <= 1000


def test_a_performance_monitor_tells_how_full_the_gpu_is(sample: Sample) -> None:
    first, second, third = sample(IDLE + BUSY + BUSY.replace("62.5 41 30", "50 20 10"), times=3).samples
    assert (first.sm_active, first.tensor_active, first.dram_active) == (None, None, None)
    assert (second.sm_active, second.tensor_active, second.dram_active) == (0.625, 0.41, 0.3)
    assert (third.sm_active, third.tensor_active, third.dram_active) == (0.5, 0.2, 0.1)


REFUSALS = {
    "not supported": (3, "this GPU or its driver does not tell it"),
    "no permission": (4, "the driver does not tell it to this user; run as root, or have the administrator allow it"),
    "too old a driver": (13, "the driver is too old to tell it"),
    "an error of its own": (999, "the driver says: Unknown Error"),
}
METRICS = {
    "util": "nvmlDeviceGetUtilizationRates",
    "power": "nvmlDeviceGetPowerUsage",
    "energy": "nvmlDeviceGetTotalEnergyConsumption",
    "sm_clock": "nvmlDeviceGetClockInfo",
    "pcie": "nvmlDeviceGetFieldValues",
    "throttle_reasons": "nvmlDeviceGetCurrentClocksEventReasons",
    "gpm": "nvmlGpmSampleGet",
}


@pytest.mark.parametrize("refusal", REFUSALS)
def test_what_the_driver_refuses_is_missing_with_the_reason(sample: Sample, refusal: str) -> None:
    code, reason = REFUSALS[refusal]
    found = sample("".join(f"answer 0 {function} {code}\n" for function in METRICS.values()) + BUSY, times=2)
    assert found.missing == {f"nvml.{metric}": reason for metric in METRICS}
    assert found.devices[0].missing == dict.fromkeys(METRICS, reason)
    assert [one.memory_used_bytes for one in found.samples] == [40000 << 20] * 2, "what it tells is kept"
    assert [(one.util, one.power_w, one.energy_j, one.sm_active) for one in found.samples] == [(None,) * 4] * 2


def test_an_older_driver_tells_memory_in_its_older_form(sample: Sample) -> None:
    (only,) = sample("answer 0 nvmlDeviceGetMemoryInfo_v2 13\n" + BUSY).samples
    assert only.memory_used_bytes == (40000 + 512) << 20


def test_a_lost_gpu_ends_its_samples_and_no_others(sample: Sample) -> None:
    found = sample("gpus 2\nlost 0 2\n" + BUSY + BUSY.replace("sample 0", "sample 1"), times=4, gpus=[0, 1])
    assert [short(one.uuid) for one in found.samples] == ["0", "1", "0", "1", "1", "1"]
    assert "Xid" in found.devices[0].missing["device"] and found.devices[1].missing == {}
    assert "no longer answers" in found.missing["nvml.device"]


def test_a_gpu_that_was_lost_before_is_listed_without_samples(sample: Sample) -> None:
    found = sample(
        "gpus 2\nanswer 0 nvmlDeviceGetHandleByIndex_v2 15\n" + BUSY.replace("sample 0", "sample 1"), times=2
    )
    assert {short(one.uuid) for one in found.samples} == {"1"}
    assert "Xid" in found.devices[0].missing["device"]


UNAVAILABLE = {
    "no permission": ("init 4\n", "/dev/nvidiactl"),
    "no driver": ("init 9\n", "modprobe nvidia"),
    "another version": ("init 18\n", "restart the machine"),
    "no GPU": ("gpus 0\n", "lists no GPU"),
}


@pytest.mark.parametrize("case", UNAVAILABLE)
def test_a_driver_that_says_nothing_is_one_reason(sample: Sample, case: str) -> None:
    script, words = UNAVAILABLE[case]
    found = sample(script)
    assert list(found.missing) == ["nvml"] and words in found.missing["nvml"]
    assert (found.devices, found.samples) == ((), ())


FOUR = "gpus 4\n"
MATCHES: dict[str, tuple[str, dict[str, object], list[str], str | None]] = {
    "the only GPU": ("", {}, ["0"], None),
    "--gpu wins over all": (FOUR, {"gpus": [3], "visible": "1", "torch": [[full(2)]]}, ["3"], None),
    "--gpu names one that is not there": (FOUR, {"gpus": [1, 7]}, ["1"], "there is no GPU 7"),
    "by what torch sees": (FOUR, {"torch": [[full(2).removeprefix("GPU-")]]}, ["2"], None),
    "each rank sees one": (FOUR, {"torch": [[full(0)], [full(3)]]}, ["0", "3"], None),
    "by number in the environment": (FOUR, {"visible": "2"}, ["2"], None),
    "by the beginning of a UUID": (FOUR, {"visible": full(1)[:14]}, ["1"], None),
    "none is visible": (FOUR, {"visible": ""}, [], None),
    "what stands behind an unknown one": (FOUR, {"visible": "1,-1,2"}, ["1"], None),
    "torch without CUDA": (FOUR, {"torch": [[]]}, [], None),
    "of those it sees, by process id": (FOUR + "process 1 {pid}\n", {"visible": "0,1"}, ["1"], None),
    "a process id on one that it does not see": (FOUR + "process 3 {pid}\n", {"visible": "2"}, ["2"], None),
    "by local rank, in a container": (
        FOUR + "process 0 1\n",
        {"torch": [[full(gpu) for gpu in (3, 2, 1, 0)]] * 2},
        ["2", "3"],
        "local rank",
    ),
    "as many ranks as GPUs": ("gpus 2\n", {"torch": [[full(0), full(1)]] * 2}, ["0", "1"], None),
    "nobody knows": (FOUR, {}, ["0", "1", "2", "3"], "--gpu names them"),
    "a MIG instance": ("mig 0 3\n", {"torch": [[full(0, 1)]]}, ["0.1"], None),
    "a MIG instance in the environment": ("mig 0 3\n", {"visible": full(0, 2)}, ["0.2"], None),
}


@pytest.mark.parametrize("case", MATCHES)
def test_the_job_s_gpus_are_told_from_the_others(sample: Sample, case: str) -> None:
    script, claims, used, doubt = MATCHES[case]
    found = sample(script, **claims)
    assert sorted(found.used) == used
    assert (doubt or "") in found.missing.get("nvml.match", "")
    assert (doubt is None) == ("nvml.match" not in found.missing)


def test_a_mig_instance_has_memory_and_monitor_of_its_own_and_no_more(sample: Sample) -> None:
    found = sample("mig 0 2\n" + BUSY, times=2, torch=[[full(0, 1)]])
    gpu, _, instance = found.devices
    assert (gpu.used_by_job, instance.used_by_job, instance.index) == (False, True, 0)
    assert "MIG" in instance.name
    whole = "the driver tells it of whole GPUs, not of a MIG instance"
    assert {metric for metric, reason in instance.missing.items() if reason == whole} >= {"util", "power", "energy"}
    last = found.samples[-1]
    assert (short(last.uuid), last.util, last.power_w) == ("0.1", None, None)
    assert last.memory_used_bytes == 40000 << 20 and last.sm_active == 0.625
