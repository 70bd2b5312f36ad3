import json

from tests.collective_frames import row, table
from tests.report.sections.brief import brief, lines_of
from tracekit.analysis.collectives import collectives
from tracekit.report.section import Section
from tracekit.report.sections.collectives import section
from tracekit.timeline.timeline import timeline_of

MS = 10**9


def section_of(*records: dict) -> Section:
    return section(collectives(timeline_of(table(*records))))


def steps(devices: int, count: int, late: int) -> list[dict]:
    """`count` all-reduces of 1 MB over devices of which `late` starts 4 ms after the others; all end 1 ms after it."""
    return [
        row(
            f"rank{k}/gpu:{k}",
            (10 * step + (4 if k == late else 0)) * MS,
            (10 * step + 5) * MS,
            host=f"rank{k}",
            bytes=10**6,
            ranks=",".join(map(str, range(devices))),
            hlo_op=f"all-reduce.{step}",
        )
        for step in range(count)
        for k in range(devices)
    ]


def test_the_finding_comes_first_how_much_was_waiting_and_for_whom():
    result = section_of(*steps(4, 16, late=3))
    assert (result.key, result.title, result.lacking) == ("collectives", "Collectives", "")
    assert result.sentences == (
        "16 all-reduces took 256.0 ms summed over 4 devices, 100 % of it exposed and 75.0 % of it waiting for the last "
        "device to arrive.",
        "rank3/gpu:3 was the straggler in 16 of 16 collectives: together, the others waited 192.0 ms for it.",
    )


def test_the_tables_tell_operations_devices_and_the_longest_waits():
    operations, devices, longest = brief(section_of(*steps(4, 16, late=3))).values()
    assert operations == (
        "Collectives by operation and message size",
        ["operation", "size", "n", "duration", "waiting", "algbw", "busbw", "total exposed"],
        [["all-reduce", "512 KiB", "16", "5.00 ms", "75.0 %", "1.00 GB/s", "1.50 GB/s", "256.0 ms"]],
    )
    assert devices[0] == "Stragglers"
    assert devices[2][3] == ["rank3/gpu:3", "16", "16", "192.0 ms", "0 ps", "16.00 ms", "0 ps", "16.00 ms"]
    assert len(longest[2]) == 5
    assert longest[2][0] == ["all-reduce.0", "0 ps", "rank3/gpu:3", "4.00 ms", "12.00 ms", "1.00 ms"]


def test_waiting_that_compute_hides_is_told_apart():
    beneath = [row(f"rank0/gpu:{0}", 10 * k * MS, (10 * k + 4) * MS, kind="compute", host="rank0") for k in range(16)]
    _, straggler = section_of(*steps(4, 16, late=3), *beneath).sentences
    # Of rank 0, of whose 5 ms compute hides 4, 1 ms a step would not be exposed were it not for the 4 ms of waiting.
    assert straggler.endswith("waited 192.0 ms for it, 144.0 ms of it exposed.")


def test_without_a_straggler_it_says_who_was_last_most_often():
    records = [record for step in range(8) for record in steps(2, 8, late=step % 2)[2 * step : 2 * step + 2]]
    assert section_of(*records).sentences[1] == (
        "No straggler: no device was last often enough, and at enough cost, to count (most often rank0/gpu:0, in 4 of "
        "8)."
    )


def test_few_collectives_do_not_tell_a_straggler():
    assert section_of(*steps(4, 7, late=3)).sentences[1] == (
        "Fewer than 8 collectives on a device are too few to identify a straggler."
    )


def test_one_rank_alone_has_lower_bounds_and_no_tables_of_waiting():
    result = section_of(*(record for record in steps(4, 3, late=3) if record["host"] == "rank0"))
    assert result.sentences == (
        "3 all-reduces took 15.00 ms, 100 % of it exposed.",
        "The trace shows the collectives of one device only: waiting, skew and stragglers cannot be computed "
        "from one rank alone.",
    )
    ((key, (_, _, rows)),) = brief(result).items()
    assert key == "collectives.operations"
    assert rows == [["all-reduce", "512 KiB", "3", "5.00 ms", "-", ">=200 MB/s", ">=300 MB/s", "15.00 ms"]]
    assert result.data["alone"] == result.sentences[1]


def test_what_could_not_be_matched_is_said():
    lone = row("rank0/gpu:0", 900 * MS, 901 * MS, "all-gather", host="rank0", ranks="{{0,4},{1,5}}")
    result = section_of(*steps(4, 8, late=3), lone)
    assert result.sentences[0].startswith(
        "8 all-reduces and 1 all-gather took 129.0 ms summed over 4 devices, 100 % of it exposed. Of the time of the 8 "
        "seen on all their ranks, 75.0 % was waiting"
    )
    assert result.sentences[-1].startswith("Which devices of this trace are the ranks {{0,4},{1,5}} is not known")
    assert result.data["notes"] == [result.sentences[-1]]


def test_without_collectives_there_is_only_that_sentence():
    result = section_of(row("gpu:0", 0, 10, kind="compute"))
    assert result == Section("collectives", "Collectives", lacking=result.lacking)
    assert result.lacking


def test_the_data_are_plain_and_hold_at_most_a_thousand_instances():
    result = section_of(*steps(2, 1003, late=1))
    data = json.loads(json.dumps(result.data))
    assert list(data) == ["total", "alone", "by_device", "by_host", "by_operation", "by_group", "instances", "notes"]
    assert (data["total"]["collectives"], len(data["instances"])) == (1003, 1000)
    assert [instance["instance"] for instance in data["instances"]] == list(range(1000))
    assert data["by_device"][1]["straggler"] is True
    assert data["alone"] is None


def test_tables_fit_80_columns_with_many_devices_and_long_names():
    records = [
        record | {"hlo_op": None, "name": "ncclDevKernel_AllReduce_Sum_bf16_TREE_LL(ncclDevKernelArgsStorage<4096ul>)"}
        for record in steps(16, 12, late=11)
    ]
    result = section_of(
        *records, *(row("rank0/gpu:0", 10**12 + k, 10**12 + k, "reduce-scatter", host="rank0") for k in (1, 2))
    )
    assert max(map(len, lines_of(result))) <= 80
    tables = brief(result)
    assert all(len(rows) <= 8 for _, _, rows in tables.values())
    assert tables["collectives.devices"][0] == "Stragglers, costliest first"
    assert [row[3] for row in tables["collectives.devices"][2]] == ["720.0 ms", *["0 ps"] * 7]
    assert tables["collectives.waits"][2][0][0] == "ncclDevKernel_AllReduce_Sum_bf16_TREE_LL"


def test_a_slow_link_and_a_late_host_are_told_with_their_devices():
    rows = [
        row(
            f"h{group}/gpu:{device}",
            (10 * step + (4 if group == 1 else 0)) * MS + device,
            (10 * step + (4 if group == 1 else 0) + (3 if group == 0 else 1)) * MS,
            host=f"h{group}",
            bytes=10**6,
            sequence=step,
            group=f"pair {group}",
            ranks=f"{2 * group},{2 * group + 1}",
        )
        for step in range(10)
        for group in (0, 1)
        for device in (0, 1)
    ]
    meet = [
        row(
            f"h{group}/gpu:{device}",
            (10 * step + 6) * MS + group * MS + device,
            (10 * step + 8) * MS,
            "all-gather",
            host=f"h{group}",
            sequence=step,
            group="all",
            ranks="0,1,2,3",
        )
        for step in range(10)
        for group in (0, 1)
        for device in (0, 1)
    ]
    its = section_of(*rows, *meet)
    assert its.sentences[1] == (
        "The 2 devices of h1 were the stragglers in 10 of 10 collectives: together, the others waited 20.00 ms for "
        "them; on time, they would save 10.00 ms."
    )
    assert its.sentences[2] == (
        "A slow link: 10 all-reduces of h0/gpu:0, h0/gpu:1 reached 333 MB/s (busbw), where other groups of as many "
        "devices reached 1.00 GB/s with messages as large."
    )
    keys = [each.key for each in its.tables]
    assert keys[:4] == ["collectives.operations", "collectives.devices", "collectives.hosts", "collectives.groups"]
