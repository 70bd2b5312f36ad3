"""A host plane of a CPU backend for tests, thread by thread."""

from tests.readers.xspaces import PlaneText

LISTENER = "ThreadpoolListener::"


class Cpu(PlaneText):
    """A `/host:CPU` plane with short ways to write what XLA writes. Times in ns."""

    def __init__(self) -> None:
        super().__init__("/host:CPU")
        self.next = 0

    def thunk(self, line, op, start, end, device=0, run=1, completion=None, completion_line=None):
        """A thunk and, at `completion`, its `end:` event (default: where the thunk's event closes)."""
        self.next += 1
        self.event(
            line,
            op,
            start,
            end - start,
            hlo_op=op,
            hlo_module="jit_f",
            program_id=6,
            run_id=run,
            device_ordinal=device,
            _pt=0,
            _p=self.next,
        )
        completion = end if completion is None else completion
        return self.event(completion_line or line, f"end: {op}", completion, 1, _ct=0, _c=self.next)

    def region(self, line, start, stop, queue):
        self.event(line, LISTENER + "StartRegion", start, 0, _ct=15, _c=queue)
        return self.event(line, LISTENER + "StopRegion", stop, 0)

    def record(self, line, at, queue):
        return self.event(line, LISTENER + "Record", at, 0, _pt=15, _p=queue)
