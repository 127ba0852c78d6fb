"""The job: it plans a batch, writes it into Kafka with its number, and saves its state; until then it may repeat it."""

from collections.abc import Iterator

from tests.state.lanes.kafka import seen
from tests.state.lanes.setting import Setting
from tests.state.lanes.world import OVER, Batch, Fact, Flaw, Known, Op, Row, Step, World


def of_job(world: World, setting: Setting) -> Iterator[Step]:
    """A batch is of one half message: what becomes of one depends on no other, but by the lane."""
    if world.batch is not None:
        yield from _runs(world, world.batch, setting)
        return
    for half, row in enumerate(world.rows):
        if row.known == Known.UNREAD:
            yield from _reads(world, half, setting)
        elif row.known not in OVER:
            if world.ops[half]:
                yield f"job plans ops of {half}", world._replace(batch=Batch(half, world.ops[half], ""))
            for timer in setting.timers if row.known == Known.OPEN else ():
                planned = Batch(half, world.ops[half], timer)
                yield f"job plans ops of {half} and its timer: {timer}", world._replace(batch=planned)


def _reads(world: World, half: int, setting: Setting) -> Iterator[Step]:
    yield f"job reads half {half}", _saved(world, half, world.rows[half]._replace(known=Known.OPEN))
    if setting.quota:
        refused = _saved(world, half, Row(Known.REFUSED))
        yield f"job refuses half {half}", _taken_in(refused, half, len(world.ops[half]))
    if Flaw.EARLY_OP_DROPPED in setting.flaws and world.ops[half]:
        yield f"job rejects early ops of {half}", _taken_in(world, half, len(world.ops[half]))


def _runs(world: World, batch: Batch, setting: Setting) -> Iterator[Step]:
    after, delivers = judged(world.rows[batch.half], batch, setting)
    if not batch.written:
        written = world._replace(batch=batch._replace(written=True))
        yield "job writes its batch", _delivered(written, batch.half) if delivers else written
        return
    if Flaw.BATCH_WRITTEN_AGAIN in setting.flaws and delivers:
        yield "job writes its batch again", _delivered(world, batch.half)
    count = len(world.ops[batch.half]) if after.known in OVER else len(batch.read)  # what comes later changes nothing
    yield "job saves its state", _taken_in(_saved(world, batch.half, after), batch.half, count)


def judged(row: Row, batch: Batch, setting: Setting) -> tuple[Row, bool]:
    """The row after a batch, and whether the job delivers in it. Ops that are in the log come before the timer."""
    for op in batch.read:
        row, delivers = _judged(row, op, setting.flaws)
        if row.known in OVER:
            return row, delivers
    if row.known != Known.OPEN or not batch.timer:
        return row, False
    if batch.timer == "age":
        return row._replace(known=Known.PARKED), False
    if not (row.settled or Flaw.TIMER_DECIDES in setting.flaws):
        return row, False  # it asks instead, as check services do in this model at any time
    commits = batch.timer == "commit"
    return row._replace(known=Known.COMMITTED if commits else Known.ROLLED_BACK), commits


def _judged(row: Row, op: Op, flaws: frozenset[Flaw]) -> tuple[Row, bool]:
    if op.fact == Fact.DELIVERED:
        return row._replace(known=Known.COMMITTED), False
    row = row._replace(settled=row.settled or op.fact == Fact.SETTLED)
    entitled = row.settled or Flaw.UNSETTLED_TAKEN in flaws
    if not entitled or op.says == "unknown" or (row.known == Known.PARKED and not op.operator):
        return row, False
    commits = op.says == "commit"
    return row._replace(known=Known.COMMITTED if commits else Known.ROLLED_BACK), commits


def _delivered(world: World, half: int) -> World:
    return world._replace(kafka=seen(world.kafka, half))


def _saved(world: World, half: int, row: Row) -> World:
    return world._replace(rows=(*world.rows[:half], row, *world.rows[half + 1 :]), batch=None)


def _taken_in(world: World, half: int, count: int) -> World:
    return world._replace(ops=(*world.ops[:half], world.ops[half][count:], *world.ops[half + 1 :]))
