"""Names of host spans that say that they are steps, or that something is counted, as people and libraries write them.

JAX and TensorFlow annotate steps with a number of its own (`StepTraceAnnotation("train", step_num=3)`, as MaxText does:
https://github.com/AI-Hypercomputer/maxtext, train.py), PyTorch's profiler as `ProfilerStep#3`: that is
host_calls.step_number. Others only name a range: `step 3`, `iteration3` (the recipe of
https://dev-discuss.pytorch.org/t/using-nsight-systems-to-profile-gpu-workload/59), `iter_3`, `Step: 3`, `step=3`,
`Batch 3`, `## step_3 ##`, `train_step_3` (StepTraceAnnotation without a number in MaxDiffusion), `epoch 3 step 4`.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

# Before the number of a step: what kind of loop it is of, its rank, its epoch.
_LOOP = (
    "train|training|eval|evaluation|val|valid|validation|test|infer|inference|predict|prediction|decode|generate|"
    "warm-?up|profile|profiled|global|main|model|loop|opt|optimizer|iteration|step"
)
_WHERE = r"(?:(?:rank|epoch|ep)[\s_:=#-]*\d+[\W_]*)*"
_STEP = re.compile(
    rf"(?:[^:]*:)?[\W_]*{_WHERE}(?:(?:{_LOOP})[\W_]*)*{_WHERE}"
    r"(?:steps?|iterations?|iters?|it|batch|batch_?idx|mini-?batch)(?:_?idx|_?num(?:ber)?)?[\s_:=#(\[-]*(\d+)"
    r"(?:\s*(?:/|of)\s*\d+)?[\W_]*",
    re.IGNORECASE,
)
_HINT = re.compile(r"(?i)(?:step|it|batch)\D*\d")
# What libraries run once a step, and name without a number; a span of the first kind is the step. PyTorch Lightning's
# loop (lightning/pytorch/loops/training_epoch_loop.py, with the prefix of profilers/pytorch.py).
_RECURRING = re.compile(r"(?:\[pl\]\[profile\])?run_training_batch")
# A span of the second kind ends the step: the optimizer's, of PyTorch (torch/optim/optimizer.py, profile_hook_step; so
# that of Megatron-LM under emit_nvtx) and of DeepSpeed (instrument_w_nvtx: runtime/zero/stage3.py, stage_1_and_2.py).
_LAST = re.compile(r"(?:[^:]*:)?(?:Optimizer\.step#\w+\.step|DeepSpeedZeroOptimizer\w*\.step)(?:, (?:op_id|seq) = .*)?")
# What is numbered because there are several of it at once, or as a part of a model, and no time that recurs.
_PLACE = re.compile(
    r"(?i)layer|block|module|stage|expert|bucket|chunk|shard|worker|thread|stream|device|replica|param|kernel|gemm|conv"
    r"|(?<![a-z])(?:head|rank|[gt]pu|node|slice|tile|core|lane|queue|simplification)s?(?![a-z])"
)
# Numbers that PyTorch's emit_nvtx gives to every call (`aten::mm, op_id = 12, seq = 4`), that XLA gives to ops
# (`fusion.3`, `Thunk:#hlo_op=…#`), and names of C++ and Python.
_CALL = re.compile(r", (?:seq|sizes|input_op_ids) = |\.#$|#.*=.*#.*#|\(.*\)|\.py\b|/")
_OF_CALL = ", op_id = "
# What may stand behind the number of a step; numbers of more digits are ids.
_CLOSING = " #_-*)]>"
_MOST_DIGITS = 19
_NUMBER = re.compile(r"\d+")
_EPOCH = re.compile(r"(?i)epoch")
# What stands in the name of a step beside it, and the number at its end.
_PART = re.compile(r"(?i)[\[(]?(?<![a-z])(?:rank|epoch|ep)[\s_:=#-]*\d+[\s_,;:)\]-]*")
_COUNT = re.compile(r"[\s_:=#(\[-]*\d+[\])]*")
_END = re.compile(r"[\s_:=#(\[-]*\d*(?:\s*(?:/|of)\s*\d+)?[\])\s#]*$")


def named_step(name: str) -> int | None:
    """The number of the step that a span of this name says it is: `step 3`, `iteration3`, `epoch 3 step 4`; else
    None."""
    # Profiles hold a million names of calls with numbers of their own: those are told without a pattern.
    if not name.rstrip(_CLOSING)[-1:].isdigit() or _OF_CALL in name:
        return None
    match = _STEP.fullmatch(name) if _HINT.search(name) else None
    return int(match[1]) if match and len(match[1]) < _MOST_DIGITS else None


def is_a_step(name: str) -> bool:
    """Whether a library runs a span of this name around each step, without a number."""
    return bool(_RECURRING.fullmatch(name))


def ends_step(name: str) -> bool:
    """Whether a span of this name is the last of each step: the optimizer's."""
    return bool(_LAST.fullmatch(name))


def counters(name: str) -> tuple[str, Sequence[int]] | None:
    """The name with `#` for each number, and the numbers, if one of them may count something that recurs: `request 7`,
    `forward of sample 12`; None where the name has no number, or one of a place or a call (`layer_3`, `fusion.3`)."""
    if _OF_CALL in name or "::" in name or name.startswith("$"):
        return None
    numbers = _NUMBER.findall(name)
    if not numbers or max(map(len, numbers)) >= _MOST_DIGITS:
        return None
    template = _NUMBER.sub("#", name)
    return (template, [int(number) for number in numbers]) if _may_count(template) else None


@lru_cache(2**12)
def _may_count(template: str) -> bool:
    return not _PLACE.search(template) and not _CALL.search(template)


def is_epoch(template: str) -> bool:
    """Whether a name is of a whole pass over the data, of which a step is a part."""
    return bool(_EPOCH.search(template)) and named_step(template.replace("#", "1")) is None


def series(name: str) -> str:
    """What the steps of a run have in common in their names: `ProfilerStep#3`, `train#step_num=3#`, `step_3`, `Step 14`
    `epoch 3 step 4` and `global_step_4_epoch_1` without their numbers."""
    if named_step(name) is None and counters(name) is not None:
        return _COUNT.sub("", name).strip(" _-:#,") or name
    bare = _PART.sub("", name) if named_step(name) is not None else name
    stem = _END.sub("", bare.strip(" #").partition("#")[0] or bare)
    return stem or name
