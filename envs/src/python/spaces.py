# Spaces: Gymnasium's against the flat rows of the slabs. Parts of a dict lie in the order of their names.


def parts_of(space):
    import gymnasium

    if isinstance(space, gymnasium.spaces.Dict):
        return [(key, space.spaces[key]) for key in sorted(space.spaces, key=str)]
    if isinstance(space, gymnasium.spaces.Tuple):
        return list(enumerate(space.spaces))
    return None


def is_tuple(space):
    import gymnasium

    return isinstance(space, gymnasium.spaces.Tuple)


def leaves(space, path=()):
    parts = parts_of(space)
    if parts is None:
        yield path, space
    else:
        for key, part in parts:
            yield from leaves(part, path + (key,))


def leaf_shape(leaf):
    return tuple(leaf.shape or ())


def leaf_width(leaf):
    width = 1
    for size in leaf_shape(leaf):
        width *= size
    return width


# Spaces whose members differ in length or form, each with what to do instead.
REFUSED = {
    "Text": "Text, whose members are texts; a wrapper can show each text as a number (Discrete) or its characters as a Box",
    "Sequence": "Sequence, whose members differ in length; a wrapper can pad them to a Box of the greatest length",
    "Graph": "Graph, whose members differ in their number of nodes; a wrapper can pad nodes and edges to Boxes of a Dict",
    "OneOf": "OneOf, whose members belong to one of several spaces each; a wrapper can show a Tuple of the number of the space "
    "(Discrete) and a Box for its member",
}


def space_json(space):
    """The space as `Space` reads it; one that it does not have is told by its type."""
    import gymnasium
    import numpy as np

    spaces = gymnasium.spaces
    if isinstance(space, spaces.Dict):
        return {"dict": [[str(key), space_json(part)] for key, part in parts_of(space)]}
    if isinstance(space, spaces.Tuple):
        return {"tuple": [space_json(part) for _, part in parts_of(space)]}
    if isinstance(space, spaces.Discrete):
        return {"discrete": {"n": int(space.n), "start": int(space.start)}}
    if isinstance(space, spaces.MultiDiscrete):
        start = getattr(space, "start", None)
        start = {"start": [int(s) for s in np.ravel(start)]} if start is not None and np.any(start) else {}
        return {"multi_discrete": {"nvec": [int(n) for n in np.ravel(space.nvec)], **start}}
    if isinstance(space, spaces.MultiBinary):
        return {"multi_binary": {"n": list(leaf_shape(space))}}
    if isinstance(space, spaces.Box):
        # numpy's names: f4 and i2, say. Small integers are widened; bytes and floats stay what they are.
        kind = {"u1": "u8", "f2": "f32", "f4": "f32", "f8": "f64", "b1": "u8"}.get(space.dtype.str[1:])
        if kind is None and space.dtype.kind not in "iu":
            return {"unsupported": f"Box of {space.dtype}"}
        kind = kind or "i64"
        bounds = {name: box_bounds(getattr(space, name)) for name in ("low", "high")}
        return {"box": {**bounds, "shape": list(leaf_shape(space)), "dtype": kind}}
    for kind, text in REFUSED.items():
        if isinstance(space, getattr(spaces, kind, ())):
            return {"unsupported": text}
    return {"unsupported": type(space).__name__}


def action_json(space):
    """A space of actions as `Space` reads it. Policies choose the numbers of an array one after the other, so that a Box is a
    row; the environment gets the array."""
    import gymnasium

    told = space_json(space)
    if isinstance(space, gymnasium.spaces.Tuple):
        return {"tuple": [action_json(part) for part in space.spaces]}
    if "box" in told:
        told["box"]["shape"] = [leaf_width(space)]
    return told


def box_bounds(bounds):
    infinite = {float("inf"): "inf", float("-inf"): "-inf"}
    return [infinite.get(bound, bound) for bound in bounds.astype("f8").ravel().tolist()]


def observation_writer(space, rows, admission, of=""):
    """A function that writes one observation into a row. `of` says in messages whose observation it is."""
    parts = [(path, rule, view) for path, rule, view in observation_views(space, rows, admission, of=of)]
    if len(parts) == 1 and parts[0][0] == ():
        _, rule, view = parts[0]

        def write(row, observation):
            view[row] = rule(observation)

    else:

        def write(row, observation):
            for path, rule, view in parts:
                view[row] = rule(part_of(observation, path, admission))

    return write


def observation_views(space, rows, admission, each=(), of=""):
    """The leaves of a space: path, rule, and the view of the rows. With `each` the rule is for arrays of as many rows."""
    views = []
    at = 0
    for path, leaf in leaves(space):
        width = leaf_width(leaf)
        view = rows[:, at : at + width]
        view.shape = (len(rows),) + leaf_shape(leaf)  # Refuses to copy, unlike reshape.
        name = "the observation" + of + (f" at {'/'.join(map(str, path))}" if path else "")
        views.append((path, Leaf(admission, leaf, name, each), view))
        at += width
    return views


def part_of(observation, path, admission):
    """The part of an observation at a path through its Dicts and Tuples."""
    value = observation
    for depth, key in enumerate(path):
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError) as error:
            inside = f" at {'/'.join(map(str, path[:depth]))}" if depth else ""
            raise admission.refuse(
                f"the observation{inside} is {short(value)}, but its space has a part {key!r}: give every part of the space"
            ) from error
    return value


def action_reader(space):
    """A function that makes an action of the environment from a flat row, and how far it read."""
    import gymnasium
    import numpy as np

    def build(space, at):
        parts = parts_of(space)
        if parts is not None:
            readers, end = {}, at
            for key, part in parts:
                readers[key], end = build(part, end)
            if isinstance(space, gymnasium.spaces.Dict):
                order = list(space.spaces)
                return (lambda row: {key: readers[key](row) for key in order}), end
            return (lambda row: tuple(read(row) for read in readers.values())), end
        if isinstance(space, gymnasium.spaces.Discrete):
            return (lambda row: int(row[at])), at + 1
        shape, end, dtype = leaf_shape(space), at + leaf_width(space), space.dtype
        return (lambda row: row[at:end].astype(dtype).reshape(shape)), end

    return build(space, 0)[0]


def actions_reader(space, rows):
    """A function that makes all rows' actions. Whole arrays are cast at once where that gives the same."""
    import gymnasium

    if isinstance(space, gymnasium.spaces.Discrete):
        column = rows[:, 0]
        return column.tolist
    if isinstance(space, gymnasium.spaces.Box):
        dtype, shape = space.dtype, (len(rows),) + leaf_shape(space)
        return lambda: list(rows.astype(dtype).reshape(shape))
    read = action_reader(space)
    return lambda: [read(row) for row in rows]


def batch_reader(space, rows):
    """A function that makes all rows' actions as a vector environment takes them."""
    import gymnasium

    def build(space, at):
        parts = parts_of(space)
        if parts is not None:
            readers, end = {}, at
            for key, part in parts:
                readers[key], end = build(part, end)
            if isinstance(space, gymnasium.spaces.Dict):
                order = list(space.spaces)
                return (lambda: {key: readers[key]() for key in order}), end
            return (lambda: tuple(read() for read in readers.values())), end
        shape, end, dtype = (len(rows),) + leaf_shape(space), at + leaf_width(space), space.dtype
        view = rows[:, at:end]
        return (lambda: view.astype(dtype).reshape(shape)), end

    return build(space, 0)[0]
