"""A document of JSON with one value of it damaged: what several tests of readers change one after the other."""

import json


def places(value, path=()):
    """The path of each value of a document."""
    yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in pairs:
        yield from places(each, (*path, key))


def changed(document, path, value):
    """The document with another value at a path; without the key, where that is `...`."""
    document = json.loads(json.dumps(document))
    holder = document
    for key in path[:-1]:
        holder = holder[key]
    if value is ...:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    return document


def figures(trace):
    """What of a trace no silent damage may change, as text."""
    frames = (trace.events, trace.launches, trace.spans, trace.syncs, trace.devices, trace.ops, trace.operands)
    return [frame.to_csv() for frame in frames]


def lost(trace):
    """How much is lost by the evidence of it."""
    return dict(zip(trace.losses["evidence"], trace.losses["lost"], strict=True))
