"""A scenario that grows: the same scenario as in YAML, refused for the same reasons."""

import pytest

from chaos.common.errors import ScenarioError
from chaos.faults.broker_processes import KillBroker
from chaos.faults.leadership import UncleanElection
from chaos.faults.links import CutLink
from chaos.faults.registry import FAULTS
from chaos.scenario.draft import Draft, Ground
from chaos.scenario.model import Scenario
from chaos.scenario.system import SystemSpec
from tests.unit.wording import mistakes_in

TOPICS = {"datasource": {"partitions": 3}, "datasink": {"partitions": 3}}
COPIER = {
    "kind": "command",
    "reads": ["datasource"],
    "sink": {"topic": "datasink"},
    "run": ["app"],
    "group": "g",
    "transactions": False,
}


def draft(folder, runtime="local", **keys):
    return Draft(
        Ground(folder, SystemSpec(), runtime), **{"name": "a", "title": "A", "topics": TOPICS, "pipeline": COPIER} | keys
    )


def test_it_is_what_yaml_would_have_made_of_it(tmp_path):
    """So everything that reads a scenario reads it alike."""
    grown = draft(tmp_path)
    grown.add(KillBroker(target="leader(datasink, 0)", restart_after="2s"), 3.21)
    grown.add(CutLink(link="pipeline->any", for_="4s", when={"progress": "40%"}), 4)
    faults = [
        {"kind": "kill_broker", "target": "leader(datasink, 0)", "restart_after": "2s", "when": {"after": "3200ms"}},
        {"kind": "cut_link", "link": "pipeline->any", "for": "4s", "when": {"progress": "40%"}},
    ]
    in_yaml = Scenario.model_validate(
        {"name": "a", "title": "A", "topics": TOPICS, "pipeline": COPIER, "faults": faults, "expect": {"gaps": "invalid"}}
    )

    assert grown.complete(expect={"gaps": "invalid"}) == in_yaml
    assert grown.complete().expect == "valid"


def test_one_declaration_may_be_injected_several_times(tmp_path):
    """Each time it has another name."""
    again, grown = KillBroker(target="any"), draft(tmp_path)

    assert [grown.add(again, second).name for second in (1, 2)] == ["kill_broker-1", "kill_broker-2"]


def test_what_is_injected_very_late_is_a_valid_scenario_all_the_same(tmp_path):
    """The run says that there was nothing left to break; a machine that is slow is no mistake in the scenario."""
    added = draft(tmp_path).add(KillBroker(target="any"), 5000)

    assert added.when.after_s == 70


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (KillBroker(target="broker-7"), ("faults.0.target", "no-such-broker")),
        ({"kind": "kil_broker"}, ("faults.0.kind", "unknown-kind")),
        ({"kind": "kill_broker"}, ("faults.0.kill_broker.target", "missing-key")),
        ("kill_broker", ("faults.0", "not-a-mapping")),
        (KillBroker(target="transaction_coordinator"), ("faults.0.target", "no-transaction-coordinator")),
        (CutLink(link="pipeline->any", for_="4s", until="b"), ("cut_link-1, until", "until-of-block")),
    ],
)
def test_a_wrong_fault_is_refused(tmp_path, fault, error):
    grown = draft(tmp_path)

    with pytest.raises(ScenarioError) as refused:
        grown.add(fault, 1)
    assert mistakes_in(refused.value)[0] == error
    assert grown.scenario.faults == ()


def test_what_only_some_expectations_allow_is_refused_at_the_end(tmp_path):
    """A fault that loses records is for controls, and what is expected is not known when it is injected."""
    grown = draft(tmp_path)
    grown.add(UncleanElection(target="leader(datasink, 0)"), 1)

    assert grown.complete(expect={"gaps": "invalid"}).is_control
    with pytest.raises(ScenarioError) as refused:
        grown.complete()
    assert mistakes_in(refused.value) == [("faults.0.kind", "unclean-yet-valid")]


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"expect": "invalid"}, ("expect", "not-an-expectation")),
        ({"expect": {"duplicates": {"dup": 1}}}, ("expect.duplicates.dup", "unknown-anomaly")),
        ({"leave_out": {"commit": "why"}}, ("leave_out.commit", "unknown-choice")),
    ],
)
def test_a_wrong_expectation_is_refused(tmp_path, asked, error):
    with pytest.raises(ScenarioError) as refused:
        draft(tmp_path).complete(**asked)
    assert mistakes_in(refused.value)[0] == error


def test_a_missing_application_is_told(tmp_path):
    pipeline = {
        "kind": "spark_submit",
        "reads": ["datasource"],
        "sink": {"topic": "datasink"},
        "application": "job.py",
        "arguments": ["{checkpoint}"],
    }

    with pytest.raises(ScenarioError) as refused:
        draft(tmp_path, pipeline=pipeline)
    assert mistakes_in(refused.value) == [("pipeline.application", "not-a-file")]
    (tmp_path / "job.py").touch()
    assert draft(tmp_path, pipeline=pipeline).scenario.pipeline.application == str(tmp_path / "job.py")


def test_every_kind_of_fault_can_leave_out_its_kind_and_its_trigger_in_python():
    """Each other missing key is named."""
    for fault in FAULTS.values():
        keys = fault._of_python({"name": "b", "for_": "1s"})
        assert keys == {
            "kind": fault.model_fields["kind"].annotation.__args__[0],
            "when": {"after": "0s"},
            "name": "b",
            "for": "1s",
        }
