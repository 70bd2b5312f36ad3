"""Names of host spans that say that they are steps, or that something is counted, as people and libraries write them.

JAX and TensorFlow annotate steps with a number of its own: `StepTraceAnnotation("train", step_num=3)`, as MaxText does
(https://github.com/AI-Hypercomputer/maxtext, train.py), and Keras' `Trace("Profiled batch", step_num=3)`
(keras/src/backend/tensorflow/tensorboard.py); so does PyTorch's profiler, `ProfilerStep#3` (which Hugging Face's
Trainer, FSDP and TorchTitan leave it to, as they name no range): that is host_calls.step_number. Others only name a
range, mostly by NVTX or record_function: `step 3`, `iteration3` (the recipe of
https://dev-discuss.pytorch.org/t/using-nsight-systems-to-profile-gpu-workload/59), `iter_3`, `Step: 3`, `step=3`,
`Batch 3`, `## step_3 ##`, `train_step_3` (StepTraceAnnotation without a number in MaxDiffusion), `Profiled batch 3`
(keras/src/backend/jax/tensorboard.py), `epoch 3 step 4`; as logs have it, `Epoch: [0][3/100]` (the ImageNet example of
https://github.com/pytorch/examples), `Epoch [1/10], Step [3/100]`, `Training [3/100]`, `step 3: loss=0.5`; as the call
itself, `trainer.step(3)`; or the parts of a step, `iter_3_forward`, `step3/forward`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache


class Recurring(Enum):
    """What a library's or a program's span that comes once a step, without a number, is of the step."""

    STEP = "the step"
    EVALUATION = "a step that only evaluates"
    BEGIN = "what a step begins with"
    END = "what a step ends with"


@dataclass(frozen=True)
class StepName:
    """What the name of a step or of a part of one says: its `number`, its `series`, which is the name without numbers,
    and its `part`, "" for the whole step."""

    number: int
    series: str
    part: str


# The kinds of loops, and of those the ones that are counted without a word for their steps (`Training [3/100]`).
_PASS = (
    "train|training|eval|evaluation|evaluating|val|valid|validation|test|testing|infer|inference|predict|prediction"
    "|warm-?up|profile|profiled"
)
_LOOP = rf"{_PASS}|decode|generate|global|main|model|loop|opt|optimizer|iteration|step"
_GAP = r"[\s_:=#(\[-]*"
# Beside the number of a step: its rank, its epoch.
_WHERE = rf"(?:(?:of\s+)?(?<![a-z])(?:rank|epoch|ep){_GAP}\d+(?:\s*/\s*\d+)?[\W_]*)"
_WORD = r"(?:steps?|iterations?|iters?|it|batch|batch_?idx|mini-?batch)(?:_?idx|_?num(?:ber)?)?"
_TOTAL = r"\s*(?:/|of)\s*\d+"
_DOMAIN = r"(?:[^:]*:)?"
_STEP = re.compile(
    rf"{_DOMAIN}(?P<owner>(?:[a-z_]\w*\.)*)[\W_]*{_WHERE}*(?:(?:{_LOOP})[\W_]*)*{_WHERE}*{_WORD}{_GAP}"
    rf"(?P<number>\d+)(?!\.\d|[^\W_])(?:{_TOTAL})?(?P<tail>.*)",
    re.IGNORECASE | re.DOTALL,
)
# `Epoch 0 [3/100]`, `Epoch: [0][3/100]`, `Training [3/100]`; but `Epoch [3/100]` is one of 100 epochs.
_OF_TOTAL = re.compile(
    rf"{_DOMAIN}(?P<owner>)[\W_]*(?:(?:{_PASS})[\W_]+)*"
    rf"(?:(?:{_PASS})|epoch{_GAP}\d+(?:\s*/\s*\d+)?\]?)[\s:,]*(?:\[|\(|(?<=[\s_]))\s*(?P<number>\d+)\s*/\s*\d+"
    r"(?P<tail>.*)",
    re.IGNORECASE | re.DOTALL,
)
# Of a million names of calls most hold none of these.
_HINTS = ("step", "it", "batch", "/")
_NUMBER_OF = re.compile(r"(?i)(?:step|it|iters?|iterations?|batch|idx|num|number)s?[^a-z0-9]*\d|\d\s*/\s*\d")
# Behind the number of a whole step: where it is, or what it measured.
_WHERE_ONLY = re.compile(rf"[\W_]*{_WHERE}*", re.IGNORECASE)
_MEASURE = re.compile(r"(?i)=|%|\d\.\d|\b(?:loss|lr|acc|accuracy)\b")
_NO_LETTER = re.compile(r"[\W\d_]+")

# What libraries and programs run once a step, and name without a number. PyTorch Lightning's loop and its hooks
# (pytorch/loops/training_epoch_loop.py and pytorch/trainer/call.py, with the prefix of pytorch/profilers/pytorch.py:
# `[pl][profile][Strategy]DDPStrategy.training_step` is the forward pass, in `run_training_batch`); DeepSpeed's methods
# (instrument_w_nvtx in deepspeed/utils/nvtx.py, which has a domain today; runtime/engine.py, runtime/zero/stage3.py and
# stage_1_and_2.py); PyTorch's optimizers (torch/optim/optimizer.py, profile_hook_step), so also those of Hugging Face's
# Trainer and of Megatron-LM under emit_nvtx (megatron/training/training.py), which name no step.
_HOOK = r"(?:\[pl\]\[profile\])?\[(?:Strategy|LightningModule)\]\w+\."
_RECURRING: tuple[tuple[Recurring, re.Pattern[str]], ...] = tuple(
    (what, re.compile(rf"(?:[\w -]*:)?(?:{pattern})"))
    for what, pattern in (
        (Recurring.STEP, r"(?:\[pl\]\[profile\])?run_training_batch"),
        (
            Recurring.STEP,
            r"(?i:[\W_]*(?:[a-z_]\w*\.)*train(?:ing)?(?:[ _-]?(?:one|single))?[ _-]?(?:steps?|batch|iter(?:ation)?)"
            r"(?:\(\))?[\W_]*)",
        ),
        (Recurring.STEP, r"(?i:[\W_]*(?:one[ _])?(?:step|iteration|iter)[\W_]*)"),
        (Recurring.EVALUATION, rf"{_HOOK}(?:validation|test|predict)_step"),
        (
            Recurring.EVALUATION,
            r"(?i:[\W_]*(?:[a-z_]\w*\.)*(?:eval|evaluation|val|validation|test|predict|prediction|inference)[ _-]?"
            r"(?:step|batch|iter(?:ation)?)[\W_]*)",
        ),
        (Recurring.END, r"(?:Optimizer\.step#\w+\.step|DeepSpeedZeroOptimizer\w*\.step)(?:, (?:op_id|seq) = .*)?"),
        (Recurring.BEGIN, rf"{_HOOK}training_step|DeepSpeedEngine\.forward"),
        (Recurring.BEGIN, r"(?:[a-zA-Z_]\w*\.)*forward_step(?:_func|_helper)?"),
    )
)
_RECURRING_HINTS = ("step", "batch", "iter", "engine.forward")

# What is numbered because there are several of it at once, or as a part of a model or of a step, and no time that
# recurs.
_PLACE = re.compile(
    r"(?i)layer|block|module|stage|expert|bucket|chunk|shard|worker|thread|stream|device|replica|param|kernel|gemm|conv"
    r"|micro[-_ ]?batch|encoder|decoder(?![a-z])|attention|attn|embed|norm|linear|dropout|relu|gelu|softmax|pooling"
    r"|matmul|backbone|unet|resnet|segment|partition"
    r"|(?<![a-z])(?:head|rank|[gt]pu|node|slice|tile|core|lane|queue|simplification|mlp|ffn|fc|bn|dense|level|branch"
    r"|peer|ring|slot|port|pool|mb)s?(?![a-z])"
)
# Numbers that PyTorch's emit_nvtx gives to every call (`aten::mm, op_id = 12, seq = 4`), that XLA gives to ops
# (`fusion.3`, `Thunk:#hlo_op=…#`), and names of C++ and Python.
_CALL = re.compile(r", (?:seq|sizes|input_op_ids) = |\.#$|#.*=.*#.*#|\(.*\)|\.py\b|/")
_OF_CALL = ", op_id = "
# Numbers of more digits are ids.
_MOST_DIGITS = 19
_NUMBER = re.compile(r"\d+")
# No name that counts something has more letters; a longer one is no step, whatever would take long to find in it.
_LONGEST = 1000
# Passes over data, of each of which a step is a part.
_EPOCH = re.compile(r"(?i)epoch|(?<![a-z])(?:trial|fold|run|phase|cycle|episode|rollout)(?![a-z])")
_WHERE_BEFORE = re.compile(rf"[\[(]?{_WHERE}", re.IGNORECASE)
_EDGE = " \t_-:#,.=()[]"
# The number at the end of what is no step by its name.
# Nothing is given back (`*+`), as none of the parts begins with what one before it takes: linear from each place.
_COUNT = re.compile(r"[\s_:=#(\[-]*+\d++[\])]*+")
_END = re.compile(r"[\s_:=#(\[-]*+\d*+(?:\s*+(?:/|of)\s*+\d++)?+[\])\s#]*+$")


def step_name(name: str) -> StepName | None:
    """What a span of this name says of a step: `step 3`, `iteration3`, `epoch 3 step 4`, `step3/forward`; else None."""
    if len(name) > _LONGEST or _OF_CALL in name or "::" in name:
        return None
    lowered = name.lower()
    if not any(hint in lowered for hint in _HINTS) or not _NUMBER_OF.search(name):
        return None
    match = _STEP.fullmatch(name) or _OF_TOTAL.fullmatch(name)
    if match is None or len(match["number"]) >= _MOST_DIGITS or _PLACE.search(match["owner"]):
        return None
    part = _part(match["tail"])
    return None if part is None else StepName(int(match["number"]), _series(name[: match.start("number")]), part)


def _part(tail: str) -> str | None:
    """What of a step is named by what stands behind its number, without numbers: "" for all; None if that is unclear.

    `(rank 0)`, `: loss=0.5` and `| lr 1.0` are no parts, `/forward` and ` layer 3` are.
    """
    if _WHERE_ONLY.fullmatch(tail):
        return ""
    if not _PLACE.search(tail):
        if _MEASURE.search(tail):
            return ""
        if _NO_LETTER.fullmatch(tail):
            return None
    return _NUMBER.sub("#", tail).strip(f"{_EDGE}/|").lower()


def _series(before: str) -> str:
    """The name of a step up to its number, without its rank and epoch."""
    # One that has nothing else is called so: `Epoch 0 [3/100]`.
    bare = _WHERE_BEFORE.sub("", before).strip(_EDGE) or _NUMBER.sub("", before).strip(_EDGE)
    return bare.partition("#")[0]


def named_step(name: str) -> int | None:
    """The number of the step that a span of this name says it is, the whole of it; else None."""
    step = step_name(name)
    return step.number if step and not step.part else None


def recurring(name: str) -> Recurring | None:
    """What of a step the span is that a library or a program runs under this name in each, without a number; None of
    any other."""
    lowered = name.lower()
    if len(name) > _LONGEST or "::" in name or not any(hint in lowered for hint in _RECURRING_HINTS):
        return None
    return next((what for what, pattern in _RECURRING if pattern.fullmatch(name)), None)


def counters(name: str) -> tuple[str, Sequence[int]] | None:
    """The name with `#` for each number, and the numbers, if one of them may count something that recurs: `request 7`,
    `forward of sample 12`; None where the name has no number, or one of a place or a call (`layer_3`, `fusion.3`)."""
    if len(name) > _LONGEST or _OF_CALL in name or "::" in name or name.startswith("$"):
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


def numbers_epoch(name: str) -> bool:
    """Whether a span of this name is of a whole pass over the data, by its number: `epoch 3`, `Epoch [3/10]`."""
    return bool(_EPOCH.search(name)) and bool(_NUMBER.search(name)) and is_epoch(_NUMBER.sub("#", name))


def series(name: str) -> str:
    """What the steps of a run have in common in their names: `ProfilerStep#3`, `train#step_num=3#`, `step_3`, `Step 14`
    `epoch 3 step 4` and `global_step_4_epoch_1` without their numbers; a longer name than any of a step as it is."""
    if len(name) > _LONGEST:
        return name
    step = step_name(name)
    if step is not None and step.series:
        return step.series
    if counters(name) is not None:
        return _COUNT.sub("", name).strip(" _-:#,") or name
    return _END.sub("", name.strip(" #").partition("#")[0] or name) or name
