"""Readers: NVIDIA through the real binding and a fake driver library, Apple through recorded outputs, the processor."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpueval.errors import UsageError
from gpueval.sizing.hardware import apple, cpu, find
from gpueval.sizing.hardware.memory import host_memory

GIB = 1 << 30
SOURCE = Path(__file__).parent / "fake_nvml" / "nvml.c"


@pytest.fixture(scope="session")
def driver(tmp_path_factory) -> Path:
    """Compile the fake driver library."""
    if not shutil.which("cc"):
        pytest.skip("no C compiler: the fake NVML library cannot be built")
    folder = tmp_path_factory.mktemp("nvml")
    library = folder / "libnvidia-ml.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, SOURCE], check=True)
    return folder


@pytest.fixture
def read(driver, tmp_path):
    """Run ``gpueval hardware --json`` against a table."""

    def run(table: str, **environment: str) -> dict:
        (tmp_path / "table").write_text(table)
        env = os.environ | {"LD_LIBRARY_PATH": str(driver), "FAKE_NVML": str(tmp_path / "table")} | environment
        done = subprocess.run(
            [sys.executable, "-m", "gpueval", "hardware", "--json"],
            capture_output=True,
            text=True,
            env=env,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        return json.loads(done.stdout)

    return run


H100 = f"""
device NVIDIA H100 80GB HBM3
uuid GPU-1
total {81559 << 20}
free {80900 << 20}
bus 5120
memory_clock 2619
capability 9.0
power_mw 700000
nvlinks 18
"""
A100 = f"""
device NVIDIA A100-SXM4-80GB
uuid GPU-{{0}}
total {81920 << 20}
free {81000 << 20}
bus 5120
memory_clock 1593
capability 8.0
nvlinks 12
"""
RTX_4090 = f"""
device NVIDIA GeForce RTX 4090
uuid GPU-4090
total {24564 << 20}
free {15 * GIB}
bus 384
memory_clock 10501
capability 8.9
display 1
busy_bytes {6 * GIB}
"""


def test_an_h100_sxm_is_not_taken_for_the_pcie_card(read) -> None:
    (device,) = read(H100)["devices"]
    assert device["name"] == "NVIDIA H100 80GB HBM3"
    assert device["bandwidth_bytes_per_s"] == 3350e9
    assert device["details"]["derived_gb_per_s"] == pytest.approx(2 * 2619e6 * 5120 / 8 / 1e9, abs=0.1)
    assert device["flops_16bit"] == 989e12
    assert device["memory_total_bytes"] == 81559 << 20
    assert device["sources"]["memory_total_bytes"] == "read"
    assert device["sources"]["bandwidth_bytes_per_s"] == "table"
    assert device["details"]["power_limit_w"] == 700


def test_two_cards_with_nvlink(read) -> None:
    found = read(A100.format(0) + A100.format(1))
    assert [device["details"]["nvlinks"] for device in found["devices"]] == [12, 12]
    assert [device["bandwidth_bytes_per_s"] for device in found["devices"]] == [2039e9] * 2
    assert not any("differ" in note for note in found["notes"])


def test_mixed_cards_are_said_to_differ(read) -> None:
    assert any("differ" in note for note in read(H100 + RTX_4090)["notes"])


def test_visible_devices_are_kept_by_uuid(read) -> None:
    found = read(H100 + RTX_4090, CUDA_VISIBLE_DEVICES="GPU-4090")
    assert [device["name"] for device in found["devices"]] == ["NVIDIA GeForce RTX 4090"]


def test_a_display_and_a_busy_process_are_told(read) -> None:
    found = read(RTX_4090)
    assert found["devices"][0]["used_by_others_bytes"] == 6 * GIB
    assert found["devices"][0]["memory_free_bytes"] == 15 * GIB
    assert any("6.0 GiB" in note for note in found["notes"])
    assert any("display" in note for note in found["notes"])


def test_a_mig_slice_has_its_share_of_memory_and_bandwidth(read) -> None:
    table = (
        A100.format(0)
        + f"mig NVIDIA A100-SXM4-80GB MIG 3g.40gb\nuuid MIG-1\ntotal {40192 << 20}\nfree {40000 << 20}\ngpu_slices 3\n"
    )
    (device,) = read(table)["devices"]
    assert device["name"] == "NVIDIA A100-SXM4-80GB MIG 3g.40gb"
    assert device["memory_total_bytes"] == 40192 << 20
    assert device["bandwidth_bytes_per_s"] == pytest.approx(2039e9 / 2)
    assert device["flops_16bit"] == pytest.approx(312e12 * 3 / 7)


def test_gb10_without_a_memory_query_reads_the_machines_memory(read) -> None:
    found = read("device NVIDIA GB10\nuuid GPU-10\ntotal !3\ncapability 12.1\n")
    (device,) = found["devices"]
    assert device["unified"]
    assert device["memory_total_bytes"] == host_memory()[0]
    assert device["bandwidth_bytes_per_s"] == 273e9
    assert any("page cache" in note for note in found["notes"])


def test_an_unknown_board_is_derived_and_says_so(read) -> None:
    table = f"device NVIDIA GeForce RTX 9999\ntotal {16 * GIB}\nfree {16 * GIB}\nbus 256\nmemory_clock 10000\n"
    table += "cores 10000\nsm_clock 2500\n"
    (device,) = read(table)["devices"]
    assert device["bandwidth_bytes_per_s"] == 640e9
    assert device["sources"]["bandwidth_bytes_per_s"] == "derived"
    assert device["flops_16bit"] == 1e14


@pytest.mark.parametrize("code", [4, 15])
def test_a_refused_memory_query_is_unknown_memory_not_the_machines(read, code) -> None:
    found = read(H100.replace(f"total {81559 << 20}", f"total !{code}"))
    (device,) = found["devices"]
    assert device["memory_total_bytes"] is None
    assert not device["unified"]
    assert any("cannot be read" in note for note in found["notes"])


PART = "mig A100 MIG 3g.40gb\nuuid MIG-{0}\ntotal {1}\nfree {1}\ngpu_slices 3\n"


def test_a_slice_of_a_card_without_memory_has_no_invented_bandwidth(read) -> None:
    card = A100.format(0).replace(f"total {81920 << 20}", "total !4")
    assert read(card + PART.format(1, 40192 << 20))["devices"][0]["bandwidth_bytes_per_s"] is None


def test_one_visible_index_of_a_split_card_is_one_slice(read) -> None:
    table = A100.format(0) + PART.format(1, 40192 << 20) + PART.format(2, 40192 << 20)
    assert len(read(table)["devices"]) == 2
    assert len(read(table, CUDA_VISIBLE_DEVICES="0")["devices"]) == 1


@pytest.mark.parametrize(("code", "words"), [(18, "differ in version"), (9, "not loaded"), (4, "no permission")])
def test_driver_trouble_is_a_note_and_the_processor_stands_in(read, code, words) -> None:
    found = read(f"init {code}\n")
    assert [device["kind"] for device in found["devices"]] == ["cpu"]
    assert any(words in note for note in found["notes"])


def test_a_lost_gpu_leaves_the_others(read) -> None:
    found = read(H100 + "device NVIDIA H100 80GB HBM3\nhandle !15\n")
    assert len(found["devices"]) == 1
    assert any("lost" in note for note in found["notes"])


def profiler(chip: str, cores: int) -> str:
    return json.dumps({"SPDisplaysDataType": [{"_name": chip, "sppci_cores": str(cores), "sppci_model": chip}]})


def mac(chip, memory_gib, cores, *, limit_key=None, limit="0", old=False):
    answers = {
        "sysctl -n machdep.cpu.brand_string": chip + "\n",
        "sysctl -n hw.memsize": f"{memory_gib * GIB}\n",
        "vm_stat": "Mach Virtual Memory Statistics: (page size of 16384 bytes)\nPages free:  100000.\n"
        "Pages inactive: 200000.\n",
    }
    if limit_key:
        answers[f"sysctl -n {limit_key}"] = limit + "\n"
    if old:
        answers["ioreg -rc AGXAccelerator"] = f'  |   "gpu-core-count" = {cores}\n'
    else:
        answers["system_profiler SPDisplaysDataType -json"] = profiler(chip, cores)
    return lambda command: answers.get(" ".join(command))


@pytest.mark.parametrize(
    ("chip", "memory", "cores", "bandwidth"),
    [
        ("Apple M1", 16, 8, 68.25),
        ("Apple M1 Ultra", 128, 64, 800),
        ("Apple M2 Max", 96, 38, 400),
        ("Apple M3 Max", 36, 30, 300),
        ("Apple M3 Max", 128, 40, 400),
        ("Apple M4", 24, 10, 120),
        ("Apple M4 Max", 36, 32, 410),
        ("Apple M5 Max", 128, 40, 614),
        ("Apple M5 Pro", 48, 20, 307),
    ],
)
def test_apple_chips_by_cores(chip, memory, cores, bandwidth) -> None:
    (device,), _ = apple.read(mac(chip, memory, cores), "Darwin")
    assert device.bandwidth_bytes_per_s == bandwidth * 1e9
    assert device.memory_total_bytes == (memory * GIB * 2 // 3 if memory <= 32 else memory * GIB * 3 // 4)
    assert device.memory_free_bytes == min(device.memory_total_bytes, 300000 * 16384)


@pytest.mark.parametrize(
    ("key", "value"), [("iogpu.wired_limit_mb", "57344"), ("debug.iogpu.wired_limit", str(57344 << 20))]
)
def test_a_raised_wired_limit_is_read_in_both_styles(key, value) -> None:
    (device,), notes = apple.read(mac("Apple M3 Max", 64, 40, limit_key=key, limit=value, old=True), "Darwin")
    assert device.memory_total_bytes == 57344 << 20
    assert device.sources["memory_total_bytes"] == "read"
    assert device.details["gpu_cores"] == 40
    assert any(key in note for note in notes)


def test_other_systems_and_intel_macs_have_no_apple_device() -> None:
    assert apple.read(mac("Apple M1", 16, 8), "Linux") == ([], [])
    devices, notes = apple.read(mac("Intel(R) Core(TM) i9", 32, 0), "Darwin")
    assert devices == []
    assert notes


def test_an_unknown_apple_chip_has_memory_but_no_speed() -> None:
    (device,), notes = apple.read(mac("Apple M9 Max", 64, 48), "Darwin")
    assert device.bandwidth_bytes_per_s is None
    assert any("no speed" in note for note in notes)


def test_a_containers_limit_counts(tmp_path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 67108864 kB\nMemAvailable: 60000000 kB\n")
    (tmp_path / "memory.max").write_text(f"{8 * GIB}\n")
    (tmp_path / "memory.current").write_text(f"{3 * GIB}\n")
    (tmp_path / "memory.stat").write_text(f"anon 1\ninactive_file {1 * GIB}\n")
    assert host_memory(tmp_path, tmp_path) == (8 * GIB, 6 * GIB)


def test_the_processor_is_measured() -> None:
    device = cpu.read()
    assert device.bandwidth_bytes_per_s > 1e9
    assert device.flops_16bit > 1e9
    assert device.sources["bandwidth_bytes_per_s"] == "measured"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("H100 SXM", "H100 SXM 80GB"),
        ("NVIDIA H100 PCIe", "H100 PCIe 80GB"),
        ("L4", "L4"),
        ("T4", "Tesla T4"),
        ("A10", "A10"),
        ("RTX 4090", "RTX 4090"),
        ("GB10", "DGX Spark GB10"),
        ("M3 Max 40", "Apple M3 Max (40-core GPU)"),
    ],
)
def test_names_find_one_device_by_whole_words(text, name) -> None:
    assert find(text).devices[0].name == name


def test_counts_memory_sizes_and_free_descriptions() -> None:
    assert len(find("4 x RTX 3090").devices) == len(find("4X RTX 3090").devices) == 4
    assert find("M4 Max 128GB").devices[0].bandwidth_bytes_per_s == 546e9  # the 32-core chip is not sold with it
    assert find("M3 Max 40 64GB").devices[0].memory_total_bytes == 64 * GIB
    given = find("128GB 400GB/s").devices[0]
    assert (given.memory_total_bytes, given.bandwidth_bytes_per_s) == (128 * GIB, 400e9)


@pytest.mark.parametrize(
    "text", ["H100", "M3 Max", "M3 Max 64GB", "M4 Max", "GTX 5000000", "M3 Max 40 1000GB", "0 x L4", ""]
)
def test_what_fits_nothing_or_several_is_refused_with_names(text) -> None:
    with pytest.raises(UsageError):
        find(text)
