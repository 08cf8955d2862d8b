"""What `convert` makes of manifests as people have them runs in the demo."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scheduler.cli.main import cli

# In our own words; the faults are those of published articles.
CLUSTER = """\
apiVersion: v1
kind: Node
metadata: {name: worker-1}
status: {allocatable: {cpu: "8", memory: 32Gi, pods: "20"}}
---
apiVersion: resource.k8s.io/v1beta1
kind: ResourceSlice
metadata: {name: worker-1-cards}
spec:
  driver: vendor.example/card
  nodeName: worker-1
  pool: {name: worker-1, generation: 1, resourceSliceCount: 1}
  devices:
  - name: card-0
    basic:
      attributes: {model: {string: "C-9"}, firmware-version: {version: 8.1.0}, fast-link: {bool: true}}
      capacity: {memory: 80Gi}
  - name: card-1
    basic:
      attributes: {model: {string: "C-9"}, firmware-version: {version: 8.1.0}, fast-link: {bool: true}}
      capacity: {memory: 80Gi}
  - name: card-2
    basic:
      attributes: {model: {string: "C-9"}, firmware-version: {version: 8.1.0}, fast-link: {bool: true}}
      capacity: {memory: 80Gi}
"""
WORKLOADS = """\
apiVersion: resource.k8s.io/v1beta1
kind: DeviceClass
metadata:
  name: fast-cards
spec:
  selectors:
  - cel:
      expression: |
        device.driver == “vendor.example/card” &&
        device.attributes["firmware-version"].string() >= "7.0" &&
        device.attributes["memory"].quantity() >= quantity("40Gi") &&
        device.attributes["fast-link"].bool() == true
  config:
  - opaque:
      driver: vendor.example/card
      parameters: {mode: exclusive}
---
apiVersion: resource.k8s.io/v1alpha3
kind: ResourceClaim
metadata:
  name: training
spec:
  devices:
    requests:
    - name: card
      deviceClassName: fast-cards
      count: 2
---
apiVersion: v1
kind: Pod
metadata: {name: trainer}
spec:
  schedulerName: dra-scheduler
  containers:
  - name: main
    image: example.com/train:1
    env:
    - name: CARD_VISIBLE_DEVICES
      valueFrom: {resourceFieldRef: {resource: claims.card.devices}}
    resources: {claims: [{name: card}]}
  resourceClaims:
  - name: card
    source: {resourceClaimName: training}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: server, namespace: serving}  # of which no article has the Namespace
spec:
  replicas: 1
  template:
    metadata: {labels: {app: server}}
    spec:
      schedulerName: dra-scheduler
      resourceClaimTemplates:
      - name: card
        spec:
          devices:
            requests:
            - name: card
              deviceClassName: fast-cards
              constraints:
              - attributes: {model: C-9, memory: 40Gi}
      containers:
      - name: main
        image: example.com/serve:1
        resources: {claims: [{name: card}]}
"""


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments], catch_exceptions=False)


@pytest.mark.slow
def test_converted_manifests_run_in_the_demo(tmp_path: Path) -> None:
    cluster, workloads = tmp_path / "cluster.yaml", tmp_path / "workloads.yaml"
    cluster.write_text(CLUSTER)
    workloads.write_text(WORKLOADS)

    converted = run(
        "convert", "--write", "--driver-map", "vendor.example/card=cards.vendor.example", cluster, workloads
    )
    assert converted.exit_code == 0, converted.output
    shown = run("demo", "--cluster", cluster, "--apply", workloads, "-o", "json")

    assert shown.exit_code == 0, shown.output
    assert ": namespace serving is in no file: made" in shown.stderr
    pods = json.loads(shown.stdout)["pods"]
    assert {pod["namespace"] for pod in pods} == {"default", "serving"}
    assert len(pods) == 2
    assert all(pod["node"] == "worker-1" for pod in pods), pods
    assert sorted(len(pod["devices"]) for pod in pods) == [1, 2]
    devices = [device for pod in pods for device in pod["devices"]]
    assert len(set(map(str, devices))) == 3
