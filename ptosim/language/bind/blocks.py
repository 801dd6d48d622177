"""The blocks of a region: which one each can be followed by, and which one it must come after.

A value is visible in the blocks that its own dominates: those that cannot be reached without it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ptosim.ground.ir.core import Block, Operation


def labels_of(blocks: Sequence[Block]) -> dict[str, Block]:
    """Return the blocks by their labels; of several with one label the first."""
    found: dict[str, Block] = {}
    for block in blocks:
        if block.label is not None:
            found.setdefault(block.label.value, block)
    return found


def successors(block: Block, labels: dict[str, Block]) -> list[Block]:
    """Return the blocks that the operations of a block name."""
    written = (clause.parts[0].value for op in block.ops for clause in jumps(op))
    return [labels[label] for label in written if label in labels]


def jumps(op: Operation) -> Iterator:
    """Yield the places of the text where an operation names a block."""
    return (clause for clause in op.clauses if clause.kind == "succ")


def dominated(blocks: Sequence[Block]) -> dict[Block, list[Block]]:
    """Return for each block the blocks that it dominates immediately, in the order of the text.
    Blocks that nothing reaches count as dominated by the first."""
    labels = labels_of(blocks)
    order = _reverse_postorder(blocks[0], labels)
    number = {block: i for i, block in enumerate(order)}
    before: dict[Block, list[Block]] = {block: [] for block in order}
    for block in order:
        for following in successors(block, labels):
            before[following].append(block)
    parent = {order[0]: order[0]}
    changed = True
    while changed:
        changed = False
        for block in order[1:]:
            known = [b for b in before[block] if b in parent]
            found = known[0]
            for other in known[1:]:
                found = _common(found, other, parent, number)
            if parent.get(block) is not found:
                parent[block] = found
                changed = True
    children: dict[Block, list[Block]] = {block: [] for block in blocks}
    for block in blocks[1:]:
        children[parent.get(block, blocks[0])].append(block)
    return children


def _reverse_postorder(first: Block, labels: dict[str, Block]) -> list[Block]:
    done: list[Block] = []
    seen = {first}
    stack = [(first, iter(successors(first, labels)))]
    while stack:
        block, rest = stack[-1]
        following = next((b for b in rest if b not in seen), None)
        if following is None:
            done.append(block)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(successors(following, labels))))
    return done[::-1]


def _common(
    one: Block, other: Block, parent: dict[Block, Block], number: dict[Block, int]
) -> Block:
    while one is not other:
        while number[one] > number[other]:
            one = parent[one]
        while number[other] > number[one]:
            other = parent[other]
    return one
