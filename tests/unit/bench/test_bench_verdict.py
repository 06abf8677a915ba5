"""The verdict of ``kstore bench``: fixed figures of each class of device, and missing ones."""

from dataclasses import replace

import pytest

from kstore.bench.machine import figures as names
from kstore.bench.machine.figures import Figure, as_tree, of_tree
from kstore.bench.report import results, side_by_side, text_table, verdict
from kstore.bench.report.device_classes import CLASSES, closest
from kstore.bench.report.grade import Grade
from kstore.bench.report.grade import verdict as judge
from kstore.cli import bench, main
from kstore.errors import KStoreError

DISK = verdict.Subject("/data", "ext4", "/dev/vda", "2 cores, 23.4 GiB, Linux 6.18")
TMPFS = verdict.Subject("/dev/shm", "tmpfs", "tmpfs", "2 cores, 23.4 GiB, Linux 6.18", "tmpfs")


def figures(writing, commit, catch_up, **more):
    """Figures of a device; ``commit``: p50, p99, slowest and mean."""
    found = of_tree({})

    def put(name, value, interval=None, rounds=7, sustained=None, note=""):
        found[name] = Figure(name, value, interval, rounds, sustained, note)

    if writing is not None:
        ends = (writing * 0.95, writing * 1.05)
        note = "held over 4 GB in 6 s; a larger device cache does not show"
        sustained = more.get("sustained", True)
        put(names.SUSTAINED_WRITE, writing, ends, 9, sustained, note)
    kinds = (names.COMMIT_P50, names.COMMIT_TAIL, names.COMMIT_SLOWEST, names.COMMIT_MEAN)
    for name, seconds in zip(kinds, commit or (), strict=False):
        put(name, seconds, rounds=2000)
    if catch_up is not None:
        put(names.CATCH_UP_READ, catch_up, rounds=3)
    put(names.TAIL_READ, 7.4e9)
    put(names.TAIL_WRITE, more.get("beside", writing))
    put(names.CACHED_READ, more.get("cached", 7.07e9), note="1074 MB")
    put(names.NETWORK_SEND, 3.1e9, (3e9, 3.2e9))
    return found


DATACENTRE_NVME = figures(1.55e9, (131e-6, 400e-6, 3.1e-3, 160e-6), 1.9e9, beside=1.2e9)
CONSUMER_NVME = figures(1.4e9, (1.6e-3, 4.5e-3, 20e-3), 3.2e9)
DATACENTRE_SATA = figures(480e6, (90e-6, 300e-6, 9e-3), 520e6)
CONSUMER_SATA = figures(200e6, (2.5e-3, 9e-3, 60e-3), 510e6)
NETWORK = figures(130e6, (1.1e-3, 3e-3, 40e-3), 130e6)
HARD_DISK = figures(180e6, (12e-3, 30e-3, 200e-3), 190e6)
THROTTLED = figures(48e6, (4e-3, 80e-3, 0.3), 50e6)
MEMORY = figures(4.8e9, (2.4e-6, 8e-6, 300e-6), None)


def tail_of(seconds, share, commits):
    """The tail of so few commits that it is no p99."""
    return {names.COMMIT_TAIL: Figure(names.COMMIT_TAIL, seconds, None, commits, share=share)}


SLOW = figures(9e6, (90e-3, 0.1, 0.3, 92e-3), 11e6, sustained=False) | tail_of(0.1, 83.0, 60)

DATACENTRE_SCREEN = """\
/data (ext4 on /dev/vda), 2 cores, 23.4 GiB, Linux 6.18
GOOD FOR A LOG. Like: datacentre NVMe (PLP). Its first limit is writing to disk,
1.55 GB/s.

Sequential writing  1.55 GB/s (1.47 to 1.63), held over 4 GB in 6 s
  1.55 million records of 1 KB a second, in batches, acknowledged from disk.
One commit          p50 131 us, mean 160 us, p99 400 us, slowest 3.1 ms
  6,200 records of 1 KB a second, 6.25 MB/s, if a producer waits for each.
Tail reads          7.4 GB/s (7 rounds, no interval) of 16 MiB while writing
  70 consumers of 100 MB/s (1074 MB alone: 7.07 GB/s); writing is 23% slower.
Catch-up reads      1.9 GB/s (3 rounds, no interval)
  A consumer 100 GB behind reads for 52.6 s, at best 5 min beside full writing.
Network send        3.1 GB/s (3 to 3.2) over loopback
  31 consumers of 100 MB/s for each sending core: fills a card of 24.8 Gbit/s.
*: within the range of    writing            commit, p50        catch-up reads
  memory (tmpfs)          1 to 30 GB/s       0.3 to 20 us       1 to 60 GB/s
  datacentre NVMe (PLP) * 0.7 to 10 GB/s   * 10 to 350 us     * 1 to 14 GB/s
  consumer NVMe         * 0.25 to 4 GB/s     0.4 to 6 ms      * 1 to 14 GB/s
  datacentre SATA (PLP)   250 to 550 MB/s  * 40 to 500 us       300 to 560 MB/s
  consumer SATA SSD       60 to 530 MB/s     0.5 to 10 ms       250 to 560 MB/s
  network block (gp3)   * 0.1 to 2.1 GB/s    0.35 to 10 ms    * 0.1 to 2.1 GB/s
  hard disk               80 to 290 MB/s     4 to 50 ms         80 to 290 MB/s"""

MEMORY_SCREEN = """\
/dev/shm (tmpfs in memory), 2 cores, 23.4 GiB, Linux 6.18
NOT A DISK. tmpfs is memory: what is written here is lost at a restart or a
power cut. Compare other directories with it, keep no log in it.

Sequential writing  4.8 GB/s (4.56 to 5.04), held over 4 GB in 6 s
  4.8 million records of 1 KB a second, in batches, acknowledged from memory.
One commit          p50 2.4 us, p99 8 us, slowest 300 us
  420,000 records of 1 KB a second, 417 MB/s, if a producer waits for each.
Tail reads          7.4 GB/s (7 rounds, no interval) of 16 MiB while writing
  70 consumers of 100 MB/s (1074 MB alone: 7.07 GB/s); writing is as fast.
Catch-up reads      not measured in this run
Network send        3.1 GB/s (3 to 3.2) over loopback
  31 consumers of 100 MB/s for each sending core: fills a card of 24.8 Gbit/s.
*: within the range of    writing            commit, p50        catch-up reads
  memory (tmpfs)        * 1 to 30 GB/s     * 0.3 to 20 us       1 to 60 GB/s
  datacentre NVMe (PLP)   0.7 to 10 GB/s     10 to 350 us       1 to 14 GB/s
  consumer NVMe           0.25 to 4 GB/s     0.4 to 6 ms        1 to 14 GB/s
  datacentre SATA (PLP)   250 to 550 MB/s    40 to 500 us       300 to 560 MB/s
  consumer SATA SSD       60 to 530 MB/s     0.5 to 10 ms       250 to 560 MB/s
  network block (gp3)     0.1 to 2.1 GB/s    0.35 to 10 ms      0.1 to 2.1 GB/s
  hard disk               80 to 290 MB/s     4 to 50 ms         80 to 290 MB/s"""

THROTTLED_SCREEN = """\
/data (ext4 on /dev/vda), 2 cores, 23.4 GiB, Linux 6.18
POOR FOR A LOG. It writes 48 MB/s, less than 100 MB/s, and one commit in 100
takes 80 ms, more than 50 ms: batch records, or let replicas acknowledge.

Sequential writing  48 MB/s (45.6 to 50.4), held over 4 GB in 6 s
  48,000 records of 1 KB a second, in batches, acknowledged from disk.
One commit          p50 4 ms, p99 80 ms, slowest 300 ms
  250 records of 1 KB a second, 250 kB/s, if a producer waits for each.
Tail reads          7.4 GB/s (7 rounds, no interval) of 16 MiB while writing
  70 consumers of 100 MB/s (1074 MB alone: 7.07 GB/s); writing is as fast.
Catch-up reads      50 MB/s (3 rounds, no interval)
  A consumer 100 GB behind reads for 33 min, at best 14 h beside full writing.
"""


@pytest.mark.parametrize(
    ("subject", "found", "screen"),
    [(DISK, DATACENTRE_NVME, DATACENTRE_SCREEN), (TMPFS, MEMORY, MEMORY_SCREEN)],
)
def test_the_screen_of_a_disk_and_of_memory(subject, found, screen):
    assert "\n".join(verdict.lines(subject, found)) == screen


def test_a_throttled_disk_differs_where_the_decision_does():
    text = "\n".join(verdict.lines(DISK, THROTTLED))
    assert text.startswith(THROTTLED_SCREEN)
    fast = verdict.lines(DISK, DATACENTRE_NVME)
    assert sum(a != b for a, b in zip(text.splitlines(), fast, strict=True)) >= 12


@pytest.mark.parametrize(
    ("found", "grade", "reason"),
    [
        (DATACENTRE_NVME, Grade.GOOD, "Like: datacentre NVMe (PLP). Its first limit is writing to"),
        (CONSUMER_NVME, Grade.GOOD, "Like: consumer NVMe. Its first limit is writing to disk, 1.4"),
        (DATACENTRE_SATA, Grade.GOOD, "Like: datacentre SATA (PLP). Its first limit is writing to"),
        (CONSUMER_SATA, Grade.FAIR, "It writes 200 MB/s, less than 300 MB/s, and one commit in"),
        (NETWORK, Grade.FAIR, "It writes 130 MB/s, less than 300 MB/s."),
        (HARD_DISK, Grade.FAIR, "It writes 180 MB/s, less than 300 MB/s, and one commit in 100"),
        (THROTTLED, Grade.POOR, "It writes 48 MB/s, less than 100 MB/s, and one commit in 100"),
    ],
)
def test_each_class_has_its_grade_and_reason(found, grade, reason):
    judged = judge(found)
    assert judged.grade is grade
    assert judged.reason.startswith(reason)


@pytest.mark.parametrize(
    ("device", "found"),
    [
        ("datacentre NVMe (PLP)", DATACENTRE_NVME),
        ("consumer NVMe", CONSUMER_NVME),
        ("datacentre SATA (PLP)", DATACENTRE_SATA),
        ("consumer SATA SSD", CONSUMER_SATA),
        ("network block (gp3)", NETWORK),
        ("hard disk", HARD_DISK),
    ],
)
def test_figures_of_a_class_are_marked_in_its_row(device, found):
    (row,) = (line for line in verdict.lines(DISK, found) if line.strip().startswith(device))
    assert row.count("*") == 3


def test_a_disk_is_never_like_memory():
    fast = {"writing": 5e9, "commit": 15e-6, "catch_up": 5e9}
    assert [each.name for each in closest(fast, in_memory=False)] == ["datacentre NVMe (PLP)"]
    assert [each.name for each in closest(fast, in_memory=True)] == ["memory (tmpfs)"]
    assert closest({}, in_memory=False) == ()


def test_ranges_are_in_order():
    for each in CLASSES:
        for low, high in (each.writing, each.commit, each.catch_up):
            assert 0 < low < high


@pytest.mark.parametrize(
    "found",
    [
        SLOW,
        DATACENTRE_NVME,
        CONSUMER_NVME,
        CONSUMER_SATA,
        HARD_DISK,
        THROTTLED,
        MEMORY,
        of_tree({}),
    ],
)
@pytest.mark.parametrize("directory", ["/data", "/very/long" * 12])
def test_every_verdict_fits_a_screen(found, directory):
    subject = verdict.Subject(directory, "ext4", "/dev/mapper/vg-log", DISK.machine, busy=0.99)
    shown = verdict.lines(subject, found)
    assert len(shown) <= 23
    assert max(map(len, shown)) <= 80


def test_nothing_measured_is_no_verdict():
    text = "\n".join(verdict.lines(DISK, of_tree({})))
    assert "NO VERDICT. Without sequential writing it cannot be given." in text
    assert text.count("not measured in this run") == 5
    assert "* " not in text


def test_the_reason_of_a_missing_figure_is_shown():
    found = figures(1.5e9, None, 1e9)
    for name in (names.COMMIT_P50, names.COMMIT_TAIL):
        found[name] = Figure(name, None, note="the time was up")
    text = "\n".join(verdict.lines(DISK, found))
    assert "NO VERDICT. Without commit latency it cannot be given." in text
    assert "One commit          not measured: the time was up" in text


def test_slow_commits_are_graded_by_the_highest_percentile_that_they_have():
    """A throttled disk: most commits are fast, so the p50 hides the stalls; 740 have a p98."""
    found = figures(400e6, (290e-6, None, 0.3, 20e-3), 500e6) | tail_of(99e-3, 98.0, 740)
    text = " ".join(verdict.lines(DISK, found))
    assert judge(found).grade is Grade.POOR
    assert "One commit in 50 takes 99 ms, more than 50 ms" in text
    assert "Graded by the p98 of 740 commits, too few for a p99, which may be worse." in text
    assert "p50 290 us, mean 20 ms, p98 99 ms, slowest 300 ms" in text
    assert "Graded by" not in " ".join(verdict.lines(DISK, HARD_DISK))
    assert judge(HARD_DISK | tail_of(12e-3, 50.0, 20)).reason.count("every second commit") == 1


def test_stalls_count_in_the_records_of_a_producer_that_waits():
    found = figures(400e6, (290e-6, 99e-3, 0.3, 20e-3), 500e6)
    text = "\n".join(verdict.lines(DISK, found))
    assert "  50 records of 1 KB a second, 50 kB/s, if a producer waits for each." in text


def test_a_rate_that_still_fell_is_an_upper_bound():
    found = figures(900e6, (131e-6, 400e-6, 3.1e-3), 1.9e9, sustained=False)
    text = "\n".join(verdict.lines(DISK, found))
    assert "  At most 900,000 records of 1 KB a second: the rate still fell at the end." in text
    assert "900 MB/s (855 to 945), not yet sustained" in text
    assert "Longer writing may be slower." in text.replace("\n", " ")


def test_a_slow_page_cache_is_not_charged_to_the_disk():
    slow = figures(233e6, (131e-6, 400e-6, 3.1e-3), 1.9e9)
    assert judge(slow).grade is Grade.FAIR
    found = slow | {names.DISK_WRITE: Figure(names.DISK_WRITE, 1.55e9, (1.4e9, 1.6e9), 7)}
    shown = verdict.lines(DISK, found)
    text = " ".join(shown)
    assert judge(found).grade is Grade.GOOD
    assert "Like: datacentre NVMe (PLP). Its first limit is writing to the page cache, 233" in text
    assert "  The page cache or processor limits it, not the disk: 1.55 GB/s by its syncs." in shown
    assert max(map(len, shown)) <= 80


def test_an_interval_across_a_bound_is_no_clear_grade():
    found = figures(305e6, (131e-6, 400e-6, 3.1e-3), 1.9e9)  # 290 to 320 MB/s
    assert judge(found).grade is Grade.GOOD
    assert judge(found).reason.endswith("The intervals allow another grade: measure longer.")
    assert "another grade" not in judge(DATACENTRE_NVME).reason


def test_a_commit_faster_than_any_device_is_called_a_cache():
    text = "\n".join(verdict.lines(DISK, figures(2e9, (3e-6, 9e-6, 1e-3), 2e9)))
    assert "Faster than any device: a cache answers, and a power cut may empty it." in text


def test_a_reader_slower_than_the_writer_never_catches_up():
    text = "\n".join(verdict.lines(DISK, figures(1e9, (1e-4, 2e-4, 1e-3), 900e6)))
    assert "reads for 2 min; beside full writing it never catches up." in text
    assert "Its first limit is reading from disk, 900 MB/s." in text.replace("\n", " ")


def test_the_subject_of_a_run_is_its_disk_and_machine():
    tree = {
        "environment": {
            "cpu": {"cores": "1 of 2"},
            "memory": {"total": "23.4 GiB"},
            "system": {"kernel": "Linux 6.18", "load": "2.5 1.0 1.0", "processors busy": "34 %"},
            "disk": {"directory": "/d", "file system": "xfs", "device": "/dev/sda1"},
        },
        "medium": "disk",
    }
    assert verdict.subject_of(tree) == verdict.Subject(
        "/d", "xfs", "/dev/sda1", "1 core, 23.4 GiB, Linux 6.18", busy=0.34
    )
    assert verdict.subject_of(tree | {"medium": "tmpfs"}).in_memory == "tmpfs"


def test_a_busy_machine_is_named_as_one():
    busy = replace(DISK, busy=0.34)
    text = " ".join(verdict.lines(busy, DATACENTRE_NVME))
    assert "Other programs used 34% of the processors: repeat it without them." in text
    quiet = replace(DISK, busy=0.2)
    assert "Other programs" not in " ".join(verdict.lines(quiet, DATACENTRE_NVME))


def test_a_tail_that_is_slower_than_cached_reads_decides_the_consumers():
    found = figures(1.5e9, (1e-4, 2e-4, 1e-3), 1.9e9, cached=9e9)
    assert "  74 consumers of 100 MB/s (1074 MB alone: 9 GB/s); writing is as fast." in (
        verdict.lines(DISK, found)
    )
    few = figures(1.5e9, (1e-4, 2e-4, 1e-3), 1.9e9, cached=88.8e6, beside=1e9)
    assert "  no consumer of 100 MB/s (1074 MB alone: 88.8 MB/s); writing is 33% slower." in (
        shown := verdict.lines(DISK, few)
    )
    assert max(map(len, shown)) <= 80


def test_a_wide_interval_is_in_the_unit_of_its_figure():
    found = DATACENTRE_NVME | {
        names.TAIL_READ: Figure(names.TAIL_READ, 1.45e9, (639e6, 1.72e9), 7),
    }
    assert "1.45 GB/s (0.639 to 1.72) of 16 MiB while writing" in "\n".join(
        verdict.lines(DISK, found)
    )


# --- the command ------------------------------------------------------------------------------


def a_run(**more):
    """A run's tree with one contest, as the command gets it."""
    ways = {"write": (2.0, 1.0, 4.0), "a goal": (1.0, 1.0, 1.0)}
    contestants = [
        {"name": name, "contestant": name, "median": middle, "low": low, "high": high}
        | {"of_ceiling": {"median": 0.5, "low": 0.5, "high": 0.5}}
        for name, (middle, low, high) in ways.items()
    ]
    result = {"group": "disk", "workload": "disk/some", "contest": "writes of 4 KiB, in order"}
    result |= {"unit": "B", "amount": 4e6, "ceiling": "write", "rounds": 5}
    result |= {"contestants": contestants, "unchecked": ["a goal"]}
    result |= {
        "bars": [
            {
                "ours": "write",
                "peer": "a goal",
                "wanted": 0.909,
                "ratio": 0.5,
                "low": 0.4,
                "high": 0.6,
            }
        ]
    }
    disk = {"directory": "/data", "file system": "ext4", "device": "/dev/vda"}
    tree = {"results": [result], "missing": {}, "failed": [], "seconds": 9.0, "medium": "disk"}
    return tree | {"environment": {"disk": disk}, "figures": {}} | more


def test_the_command_prints_the_verdict_then_the_table(capsys):
    bench.print_verdict(a_run(figures=as_tree(DATACENTRE_NVME.values())), details=False)
    out = capsys.readouterr().out
    assert out.index("GOOD FOR A LOG") < out.index("hard disk") < out.index("fastest")
    assert "  writes of 4 KiB  " in out
    assert out.splitlines()[-1] == "1 contest in 9 s"


def test_a_run_without_the_figures_has_no_verdict(capsys):
    bench.print_verdict(a_run(), details=False)
    out = capsys.readouterr().out
    assert "VERDICT" not in out
    assert "fastest" in out


def test_an_interrupted_run_says_so(capsys):
    bench.print_verdict(a_run(ended_by="KeyboardInterrupt"), details=True)
    out = capsys.readouterr().out
    assert "fastest" not in out  # each table was printed during the run
    assert out.endswith("interrupted by KeyboardInterrupt\n")


def test_the_fastest_way_does_all_of_the_work():
    *_, row = text_table.fastest(a_run()["results"])
    assert row.split() == ["writes", "of", "4", "KiB", "2", "MB/s", "-50%", "+100%", "write"]
    assert len(row) <= text_table.WIDTH


def test_few_rounds_have_their_number_instead_of_an_interval():
    (result,) = a_run()["results"]
    result |= {"rounds": 3}
    result["contestants"][0] |= {"low": None, "high": None}
    *_, row = text_table.fastest([result])
    assert row.split() == ["writes", "of", "4", "KiB", "2", "MB/s", "3", "rounds", "write"]


def test_ratios_that_developers_want_are_shown_to_them_alone():
    (result,) = a_run()["results"]
    assert "wanted" not in "\n".join(text_table.lines(result, targets=False))
    assert "wanted 0.909x: SHORT" in "\n".join(text_table.lines(result))


# --- two runs ---------------------------------------------------------------------------------


def test_two_disks_stand_beside_each_other():
    disk = {"directory": "/dev/shm", "file system": "tmpfs", "device": "tmpfs"}
    memory = a_run(figures=as_tree(MEMORY.values()), medium="tmpfs", environment={"disk": disk})
    shown = list(side_by_side.lines(a_run(figures=as_tree(DATACENTRE_NVME.values())), memory))
    assert shown == [
        "                      /data (ext4)                 /dev/shm (tmpfs)",
        "Verdict               GOOD FOR A LOG               NOT A DISK",
        "Sequential writing    1.55 GB/s                    4.8 GB/s",
        "One commit, p50       131 us                       2.4 us",
        "One commit, mean      160 us                       not measured",
        "One commit, p99       400 us                       8 us",
        "One commit, slowest   3.1 ms                       300 us",
        "Tail reads            7.4 GB/s                     7.4 GB/s",
        "Catch-up reads        1.9 GB/s                     not measured",
        "Network send          3.1 GB/s                     3.1 GB/s",
        "The grades cannot be compared. The exit status does not judge this table.",
    ]
    assert list(side_by_side.lines(a_run(), memory)) == []


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        (DATACENTRE_NVME, THROTTLED, "The first is better by its grade."),
        (THROTTLED, HARD_DISK, "The second is better by its grade."),
        (CONSUMER_NVME, DATACENTRE_SATA, "The grades are equal."),
        (of_tree({}), HARD_DISK, "The grades cannot be compared."),
    ],
)
def test_two_verdicts_say_which_is_better_by_its_grade(first, second, said):
    runs = [a_run(figures=as_tree(each.values())) for each in (first, second)]
    *_, last = side_by_side.lines(*runs)
    assert last == f"{said} The exit status does not judge this table."


def test_the_rate_of_a_disk_alone_stands_beside_that_of_another():
    alone = {names.DISK_WRITE: Figure(names.DISK_WRITE, 1.7e9, None, 3)}
    runs = [a_run(figures=as_tree(each.values())) for each in (HARD_DISK, HARD_DISK | alone)]
    assert "The disk alone        not measured                 1.7 GB/s" in list(
        side_by_side.lines(*runs)
    )


def test_a_percentile_of_few_commits_is_named_beside_a_p99():
    few = a_run(figures=as_tree((DATACENTRE_NVME | tail_of(99e-3, 98.0, 740)).values()))
    shown = list(side_by_side.lines(a_run(figures=as_tree(DATACENTRE_NVME.values())), few))
    assert "One commit, p99       400 us                       99 ms (p98: few commits)" in shown


@pytest.mark.parametrize(
    ("key", "odd"),
    [
        ("figures", []),
        ("figures", {"commit p50": {}}),
        ("figures", {"commit p50": {"value": "1", "interval": None, "rounds": 1, "note": ""}}),
        (
            "figures",
            {"commit p50": {"value": 1, "interval": [1], "rounds": 1, "note": "", "sustained": 0}},
        ),
        ("environment", {"cpu": {"cores": 2}}),
        ("medium", 7),
    ],
)
def test_a_file_with_odd_figures_is_refused(tmp_path, key, odd):
    tree = a_run(level="quick", kstore_bench=results.FORMAT) | {"results": [], key: odd}
    results.write(tmp_path / "a.json", tree)
    with pytest.raises(KStoreError, match=f"odd '{key}'"):
        results.read(tmp_path / "a.json")


def test_figures_of_zero_have_a_verdict_too():
    nothing = figures(0.0, (0.0, 0.0, 0.0), 0.0, beside=0.0)
    assert verdict.lines(DISK, nothing)[1].startswith("POOR FOR A LOG. It writes 0 B/s")
    assert verdict.subject_of({"environment": {"system": {"processors busy": ""}}}).busy == 0


def test_runs_of_the_verdict_alone_are_compared(tmp_path, capsys):
    for name, found in (("a", DATACENTRE_NVME), ("b", THROTTLED)):
        tree = a_run(figures=as_tree(found.values()), results=[], noise={}, level="quick")
        results.write(tmp_path / f"{name}.json", tree | {"kstore_bench": results.FORMAT})
    assert main(["bench", "compare", str(tmp_path / "a.json"), str(tmp_path / "b.json")]) == 0
    out = capsys.readouterr().out
    assert "GOOD FOR A LOG               POOR FOR A LOG" in out
