"""`until: FAULT` names another fault of the scenario."""

import pytest

from chaos.scenario.plan import describe, from_json, plan, to_json
from tests.unit.scenario.declared import errors_of, loaded

TEXT = """\
version: 2
scenarios:
  - name: one
    title: One
    pipeline: {kind: command, run: [app], group: g, reads: [datasource], sink: {topic: datasink}}
    faults:
      - {kind: cut_link, link: "pipeline->broker-1", when: {after: 1s}, for: 9s, until: UNTIL}
      - {name: dies, kind: kill_broker, target: any, when: {after: 2s}}
"""


def test_it_is_said_in_the_plan_and_survives_being_written_down():
    """A reader of the plan must know when the fault ends."""
    (scenario,) = loaded(TEXT.replace("UNTIL", "dies")).scenarios
    schedule = plan(scenario, 1)

    assert describe(schedule)[0].endswith("for 9 s or until dies is proved")
    assert from_json(to_json(schedule)) == schedule


@pytest.mark.parametrize("name", ["dyes", "cut_link-1"])
def test_a_fault_that_is_not_there_or_is_itself_is_an_error(name):
    """Otherwise the fault would silently last for its whole time."""
    assert errors_of(TEXT.replace("UNTIL", name))[0] == ("7:89", "no-such-fault")
