"""Names in little room: what differs stays, in Python and in the page's scripts alike."""

from importlib import resources

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import traces
from tracekit.analysis.top_ops import top_ops
from tracekit.labels import bare, labels

KERNELS = [
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, Array<char*, 3> >(int)",
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, Array<char*, 1> >(int)",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "fusion.1284",
    "fusion.1285",
]
# Each word of each is in another one, too.
TEMPLATES = [
    f"void at::native::vectorized_elementwise_kernel<4, at::native::{functor}<float>, Array<char*, {n}> >(int)"
    for functor in ("CUDAFunctor_add", "MulFunctor")
    for n in (2, 3)
]
# All of the same words, which stand in other places or more often.
NUMBERED = [
    f"void cutlass::device_kernel<cutlass::gemm::GemmUniversal<tuple<{tile}>, float>, cute::Shape<_64, {tile}>>(int)"
    for tile in ("1, 128, 1", "2, 128, 1", "1, 128, 2", "128, 1, 1")
]
PIECES = [
    *(
        "void ",
        "at::native::",
        "(anonymous namespace)::",
        "<unnamed>::",
        "::",
        "kernel",
        "_sum",
        "<",
        ">",
        "(int)",
        "3",
        "17",
        " ",
    ),
    *("é", "名", "\N{ROCKET}"),
]
NAMES = st.lists(st.lists(st.sampled_from(PIECES), max_size=14).map("".join), min_size=1, max_size=8, unique=True)


@pytest.mark.parametrize(
    ("names", "room", "shown"),
    [
        (KERNELS, 8, ["…CUDAFun", "…FillFun", "…AllRedu", "…AllGath", "…on.1284", "…on.1285"]),
        (
            KERNELS,
            14,
            ["vector…CUDAFu…", "vector…FillFu…", "ncclDe…AllRed…", "ncclDe…AllGat…", "fusion.1284", "fusion.1285"],
        ),
        (
            TEMPLATES,
            24,
            [
                "vectorized…CUDAFuncto…2…",
                "vectorized…CUDAFuncto…3…",
                "vectorized…MulFunctor…2…",
                "vectorized…MulFunctor…3…",
            ],
        ),
    ],
)
def test_names_in_little_room_keep_what_differs(names, room, shown):
    assert labels(names, room) == shown


@pytest.mark.parametrize("room", [16, 24, 48, 60])
def test_kernels_of_one_template_are_told_apart(room):
    assert len(set(labels(TEMPLATES, room))) == len(TEMPLATES)


@pytest.mark.parametrize("room", [16, 20, 24, 48, 60])
def test_kernels_of_the_same_words_are_told_apart_by_where_these_stand(room):
    for names in (NUMBERED[:2], [*NUMBERED[:2], KERNELS[0]], NUMBERED):
        assert len(set(labels(names, room))) == len(names)


@pytest.mark.parametrize("case", traces.cases("kineto/dlrm-8xV100", "nsys/mfu_2gpu_before-2xH100"))
def test_no_two_top_operations_of_a_real_trace_read_alike(case):
    names = top_ops(traces.timeline(case)).by_name["name"].head(10).tolist()
    assert len(set(labels(names, 20))) == len(set(names))


def test_a_name_loses_its_namespaces_and_arguments_but_no_part_of_its_own():
    assert bare("void at::native::(anonymous namespace)::f<g(h)>(int, a(b))") == "f<g(h)>"
    assert bare("at::native::<unnamed>::layer_norm<float>(int)") == "layer_norm<float>"
    assert [bare(name) for name in ("", "()", "f (x)", "jit(f)/add", "a(b")] == ["", "()", "f (x)", "jit(f)/add", "a(b"]


@given(NAMES, st.integers(2, 70))
def test_no_label_is_longer_than_its_room(names, room):
    assert all(len(label) <= room for label in labels(names, room))


@pytest.fixture(scope="module", name="page")
def _page(chromium, tmp_path_factory):
    """A page of Chromium that holds nothing but the scripts of units and labels."""
    path = tmp_path_factory.mktemp("labels") / "labels.html"
    code = [(resources.files("tracekit.report.html") / name).read_text("utf-8") for name in ("units.js", "labels.js")]
    scripts = "".join(f"<script>{script}</script>" for script in code)
    path.write_text(f"<!doctype html><meta charset=utf-8><title>labels</title>{scripts}", "utf-8")
    context = chromium.new_context()
    page = context.new_page()
    page.goto(path.as_uri())
    yield page
    context.close()


def shown_by(page, calls):
    """What the page's script makes of pairs of names and a room."""
    return page.evaluate(
        """(calls) => calls.map(([names, room]) => {
          const label = tracekit.labels.labels(names, tracekit.labels.bare);
          return names.map((_, at) => label(at, room));
        })""",
        calls,
    )


@settings(max_examples=10)
@given(st.lists(st.tuples(NAMES, st.integers(2, 70)), min_size=30, max_size=60))
def test_the_page_shortens_names_like_every_other_face(page, calls):
    calls = [*calls, *((names, room) for names in (KERNELS, TEMPLATES, NUMBERED) for room in (8, 14, 16, 24, 40))]
    assert shown_by(page, calls) == [labels(names, room) for names, room in calls]
