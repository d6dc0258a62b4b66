"""CPU time of the wire codec beside kio's, kafka-python's and one written by hand, all in the same run."""

import gc
import io
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from kio.serial import entity_reader, entity_writer

from rookery.core.wire.api_table import ALL
from tests.bench import hand_codec
from tests.bench.wire_samples import Sample, builder, samples
from tests.golden.wire import peers

ROUNDS = 41
SLICE_NS = 1_000_000

Work = Callable[[], object]


def measure(contestants: dict[str, Work]) -> dict[str, float]:
    """µs of CPU per call; the contestants take turns, the median of their turns counts."""
    loops = {}
    for name, work in contestants.items():
        work()
        loops[name] = max(1, SLICE_NS // max(1, min(_turn(work, 20) // 20 for _ in range(3))))
    taken: dict[str, list[float]] = {name: [] for name in contestants}
    gc.disable()
    try:
        for _ in range(ROUNDS):
            for name, work in contestants.items():
                taken[name].append(_turn(work, loops[name]) / loops[name] / 1000)
    finally:
        gc.enable()
    return {name: median(times) for name, times in taken.items()}


def _turn(work: Work, loops: int) -> int:
    turns = range(loops)
    begun = time.process_time_ns()
    for _ in turns:
        work()
    return time.process_time_ns() - begun


def codecs(sample: Sample) -> dict[str, dict[str, Work]]:
    """Decoding the request, encoding the response, and all of it with building the response between."""
    api, version = sample.api, sample.version
    raw = b"".join(api.encode_request(version, sample.request))
    view = memoryview(raw)
    kio_request, kio_response = (peers.kio_class(api, version, side) for side in ("request", "response"))
    kio_read: Any = entity_reader(kio_request)
    kio_write: Any = entity_writer(kio_response)
    kio_object = peers.to_kio(kio_response, sample.response)
    kp_request, kp_response = (peers.kafka_python_class(api, side) for side in ("request", "response"))
    kp_object = peers.to_kafka_python(kp_response, kp_response._struct, version, sample.response)
    build, kio_build, kp_build = builder(sample.response), builder(kio_object), builder(kp_object)
    decode_request, encode_response = api.decode_request, api.encode_response

    def kio_encode(message: Any) -> bytes:
        out = io.BytesIO()
        kio_write(out, message)
        return out.getvalue()

    return {
        "decode": {
            "ours": lambda: decode_request(version, view),
            "kio": lambda: kio_read(raw, 0),
            "kafka-python": lambda: kp_request.decode(raw, version=version),
        },
        "encode": {
            "ours": lambda: encode_response(version, sample.response),
            "kio": lambda: kio_encode(kio_object),
            "kafka-python": lambda: kp_object.encode(version=version),
        },
        "whole": {
            "ours": lambda: (decode_request(version, view), encode_response(version, build())),
            "kio": lambda: (kio_read(raw, 0), kio_encode(kio_build())),
            "kafka-python": lambda: (
                kp_request.decode(raw, version=version), kp_build().encode(version=version)
            ),
        },
    }


def messages() -> None:
    print("\nµs per request; whole = decode the request, build the response, encode it")
    head = "".join(f"{what + ' ' + who:>13}" for what in ("dec", "enc", "all") for who in ("ours", "kio", "kpy"))
    print(f"{'':28}{'bytes':>8}{head}{'kio/ours':>10}{'kpy/ours':>10}")
    for sample in samples():
        size = sum(map(len, sample.api.encode_request(sample.version, sample.request)))
        times = [measure(contestants) for contestants in codecs(sample).values()]
        cells = "".join(f"{value:13.2f}" for row in times for value in row.values())
        whole = times[2]
        ratios = f"{whole['kio'] / whole['ours']:10.1f}{whole['kafka-python'] / whole['ours']:10.1f}"
        print(f"{sample.title:28}{size:8}{cells}{ratios}", flush=True)


def by_hand() -> None:
    print("\nµs per request decode beside a hand-written struct codec")
    print(f"{'':28}{'compiled':>12}{'hand, same classes':>20}{'hand, tuples':>14}{'hand/compiled':>15}")
    codec = {"Produce": hand_codec.produce_v9, "Fetch": hand_codec.fetch_v12}
    for sample in samples():
        hand = codec.get(sample.api.name)
        if hand is None or sample.version not in (9, 12):
            continue
        api, version = sample.api, sample.version
        view = memoryview(b"".join(api.encode_request(version, sample.request)))
        taken = measure(_hand_work(api, version, view, hand))
        print(
            f"{sample.title:28}{taken['compiled']:12.2f}{taken['classes']:20.2f}{taken['tuples']:14.2f}"
            f"{taken['classes'] / taken['compiled']:15.2f}"
        )


def _hand_work(api: Any, version: int, view: memoryview, hand: Callable[..., Any]) -> dict[str, Work]:
    if api.decode_request(version, view) != hand(view, True):
        raise RuntimeError(f"the hand-written {api.name} codec reads something else")
    return {
        "compiled": lambda: api.decode_request(version, view),
        "classes": lambda: hand(view, True),
        "tuples": lambda: hand(view, False),
    }


def _tables(api: Any) -> tuple[Any, ...]:
    return api.request_readers, api.request_writers, api.response_readers, api.response_writers


def start_up() -> None:
    program = (
        "import time\n"
        "begun = time.process_time()\n"
        "import rookery.core.wire.header\n"
        "print(time.process_time() - begun)\n"
    )
    runs = [
        float(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout)
        for _ in range(7)
    ]
    print(f"\nimport of all {len(ALL)} APIs: {median(runs) * 1000:.0f} ms CPU, standard library included")
    begun = time.process_time()
    count = 0
    for api in ALL:
        for version in range(api.min_version, api.max_version + 1):
            for codecs_of in _tables(api):
                codecs_of.__missing__(version)
                count += 1
    taken = time.process_time() - begun
    print(f"compiling all {count} functions: {taken:.2f} s, {taken / count * 1000:.2f} ms each, on first use")


def main() -> None:
    messages()
    by_hand()
    start_up()


if __name__ == "__main__":
    main()
