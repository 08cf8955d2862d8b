"""What configuration files have since Kubernetes 1.37 and 1.38, row by row."""

from __future__ import annotations

import pytest

from scheduler.config.file import ConfigError, parse_config

HEAD = "apiVersion: dra-scheduler/v1alpha1\nkind: DraSchedulerConfiguration\n"
PERCENTAGE = "percentageOfPlacementsToScore: 30\n"
OF_PROFILE = "profiles: [{percentageOfPlacementsToScore: 30}]\n"
FEASIBLE = "profiles: [{plugins: {placementFeasible: {disabled: [{name: GangScheduling}]}}}]\n"
GROUPS = "profiles: [{plugins: {podGroupPostFilter: {enabled: [{name: DynamicResources}]}}}]\n"
GATE = "featureGates: {TopologyAwareWorkloadScheduling: true}\n"
NOT_YET = "it is there since Kubernetes 1.38"


@pytest.mark.parametrize(
    ("text", "release", "said"),
    [
        pytest.param(PERCENTAGE + GATE, "1.38", "", id="percentage"),
        pytest.param(PERCENTAGE, "1.38", "requires TopologyAwareWorkloadScheduling", id="percentage-gate-off"),
        pytest.param(PERCENTAGE + GATE, "1.37", NOT_YET, id="percentage-1.37"),
        pytest.param(OF_PROFILE + GATE, "1.38", "", id="percentage-of-a-profile"),
        pytest.param(OF_PROFILE, "1.38", "profiles[0].percentageOfPlacementsToScore", id="of-a-profile-gate-off"),
        pytest.param(FEASIBLE, "1.38", "", id="placementFeasible"),
        pytest.param(FEASIBLE, "1.37", NOT_YET, id="placementFeasible-1.37"),
        pytest.param(GROUPS, "1.37", "", id="podGroupPostFilter"),
        pytest.param(GROUPS, "1.36", "it is there since Kubernetes 1.37", id="podGroupPostFilter-1.36"),
        pytest.param(GATE, "1.37", "", id="gate"),
    ],
)
def test_a_field_is_of_its_release(text: str, release: str, said: str) -> None:
    document = f'{HEAD}{text}kubernetes: "{release}"\n'
    if not said:
        read = parse_config(document, "f.yaml")
        assert read.config.features().kubernetes == release
        assert any("all placements are looked at" in word for word in read.words) == text.startswith(PERCENTAGE)
        return
    with pytest.raises(ConfigError) as refused:
        parse_config(document, "f.yaml")
    assert said in str(refused.value)


def test_without_a_release_nothing_is_missing() -> None:
    assert parse_config(HEAD + PERCENTAGE + FEASIBLE, "f.yaml").config.percentage_of_placements_to_score == 30
