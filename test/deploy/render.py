"""Lints and renders a chart with Helm's own library, and validates the objects against the schemas of Kubernetes: JSON in, JSON out."""

import json
import sys

import kubernetes_validate
import yaml
from helm_python import chart

CHART, KUBERNETES = sys.argv[1:]
answers = []
for values in json.load(sys.stdin):
    findings = [m["error"] for m in chart.lint(CHART, values, strict=True)["messages"] if m["severity"] > 1]
    objects = []
    if not findings:
        loaded = chart.Chart.load(CHART)
        loaded.validate_schema(values)
        for name, text in sorted(loaded.render(values, name="demo", namespace="tools").items()):
            if name.endswith(".txt"):
                objects.append({"kind": "Notes", "text": text})
                continue
            for made in yaml.safe_load_all(text):
                if made is None:
                    continue
                objects.append(made)
                # Of the Prometheus operator: Kubernetes itself has no schema for it.
                if made["kind"] == "ServiceMonitor":
                    continue
                try:
                    kubernetes_validate.validate(made, KUBERNETES, strict=True)
                except kubernetes_validate.ValidationError as error:
                    findings.append(f"{name} {made['kind']} {made['metadata']['name']}: {error.message}")
    answers.append({"findings": findings, "objects": objects})
json.dump(answers, sys.stdout)
