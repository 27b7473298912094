"""Renders the chart with each file of values in its folder `ci`, and checks what comes of it.

Arguments: the folder of the chart, the program, a folder for temporary files, the page of documentation with values for the chart.
"""

import copy
import pathlib
import subprocess
import sys

import helm_python
import kubernetes_validate
import yaml

CHART, PROGRAM, WORK, PAGE = sys.argv[1:5]
KUBERNETES = ["1.29.0", "1.37.0"]


def render(values):
    """The documents of a release, by kind."""
    with helm_python.Chart.load(CHART) as chart:
        chart.validate_schema(values)
        rendered = chart.render(values, name="shop", namespace="prod")
    documents = []
    for name, text in rendered.items():
        if name.endswith(".yaml"):
            documents += [document for document in yaml.safe_load_all(text) if document]
    for document in documents:
        for version in KUBERNETES:
            kubernetes_validate.validate(document, version, strict=True)
    kinds = {document["kind"]: document for document in documents}
    assert len(kinds) == len(documents), "two of a kind"
    return kinds


def refused(values, word):
    """Insists that values are refused, with a reason that has this word."""
    try:
        render(values)
    except helm_python.HelmError as error:
        assert word in str(error), error
    else:
        raise AssertionError(f"not refused: {word}")


def check_container(container, mounted):
    """A container of Seawall's: narrow rights, and volumes that the pod has."""
    rights = container["securityContext"]
    assert rights["readOnlyRootFilesystem"] and not rights["allowPrivilegeEscalation"], rights
    assert rights["capabilities"] == {"drop": ["ALL"]}, rights
    assert container["resources"]["limits"]["memory"]
    assert {"name": "SEAWALL_CONFIG", "value": "/etc/seawall/seawall.yml"} in container["env"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert set(mounts) <= mounted, (mounts, mounted)
    assert mounts["state"] == "/var/lib/seawall" and mounts["scratch"] == "/tmp"
    # The words are a command of the program.
    words = [PROGRAM, *container["args"], "--help"]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def check_pod(pod, claims):
    """A pod: no root, no token of the cluster's, time to end."""
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] != 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert pod["terminationGracePeriodSeconds"] >= 60
    mounted = {volume["name"] for volume in pod["volumes"]} | {claim["metadata"]["name"] for claim in claims}
    for container in pod.get("initContainers", []) + pod["containers"]:
        if container["name"] != "application":
            check_container(container, mounted)


def check_probes(container):
    """What protects is asked whether it runs."""
    for probe in ["startupProbe", "livenessProbe"]:
        assert container[probe]["exec"]["command"] == ["seawall", "info"]


def configuration(kinds):
    """The configuration, which the program itself must accept."""
    text = kinds["ConfigMap"]["data"]["seawall.yml"]
    file = pathlib.Path(WORK, "chart.yml")
    file.write_text(text)
    said = subprocess.run([PROGRAM, "config", "check", "--config", file], check=True, capture_output=True, text=True)
    assert " 0 warnings" in said.stdout, said.stdout
    return yaml.safe_load(text)


def of(form):
    return yaml.safe_load(pathlib.Path(CHART, "ci", f"{form}-values.yaml").read_text())


def agent():
    kinds = render(of("agent"))
    deployment = kinds["Deployment"]["spec"]
    assert (deployment["replicas"], deployment["strategy"]) == (1, {"type": "Recreate"}), "one writer"
    pod = deployment["template"]["spec"]
    check_pod(pod, [])
    [container] = pod["containers"]
    check_probes(container)
    assert container["args"] == ["replicate"]
    assert container["envFrom"] == [{"secretRef": {"name": "seawall"}}]
    assert {"name": "secrets", "mountPath": "/etc/seawall-secrets", "readOnly": True} in container["volumeMounts"]
    claim = kinds["PersistentVolumeClaim"]
    assert claim["spec"]["accessModes"] == ["ReadWriteOncePod"]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert volumes["state"]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert kinds["ServiceAccount"]["metadata"]["annotations"]
    config = configuration(kinds)
    assert config["socket"] == {"path": "/tmp/seawall.sock"} and config["metrics-addr"] == "0.0.0.0:9090"
    # Another configuration is another pod.
    changed = of("agent")
    changed["config"]["vault"] = "s3://backups/other"
    annotation = lambda kinds: kinds["Deployment"]["spec"]["template"]["metadata"]["annotations"]["checksum/config"]
    assert annotation(render(changed)) != annotation(kinds)


def sidecar():
    kinds = render(of("sidecar"))
    spec = kinds["StatefulSet"]["spec"]
    assert spec["replicas"] == 1
    claims = spec["volumeClaimTemplates"]
    assert all(claim["spec"]["accessModes"] == ["ReadWriteOncePod"] for claim in claims)
    assert spec["serviceName"] == kinds["Service"]["metadata"]["name"]
    pod = spec["template"]["spec"]
    check_pod(pod, claims)
    restore, seawall = pod["initContainers"]
    assert restore["args"] == ["restore", "app", "--if-missing", "--allow-empty"]
    assert (seawall["restartPolicy"], seawall["args"]) == ("Always", ["replicate"]), "a native sidecar"
    check_probes(seawall)
    [application] = pod["containers"]
    data = [mount for mount in application["volumeMounts"] if mount["name"] == "data"]
    assert data == [mount for mount in seawall["volumeMounts"] if mount["name"] == "data"], "both see the same folder"
    assert seawall["image"].endswith("@" + of("sidecar")["image"]["digest"])
    configuration(kinds)
    # Without metrics and ports a Service has no ports.
    quiet = of("sidecar")
    quiet["metrics"] = {"enabled": False}
    del quiet["sidecar"]["application"]["ports"], quiet["sidecar"]["application"]["readinessProbe"]
    assert "ports" not in render(quiet)["Service"]["spec"]


def cronjob():
    kinds = render(of("cronjob"))
    spec = kinds["CronJob"]["spec"]
    assert (spec["concurrencyPolicy"], spec["timeZone"]) == ("Forbid", "Europe/Berlin")
    pod = spec["jobTemplate"]["spec"]["template"]["spec"]
    assert pod["restartPolicy"] == "Never"
    check_pod(pod, [])
    assert pod["containers"][0]["args"] == ["backup", "shop"]
    config = configuration(kinds)
    assert "socket" not in config and "metrics-addr" not in config


def wrong_values():
    for key, word in [("image", "image.repository"), ("config", "seawall.yml")]:
        values = of("agent")
        values[key] = {}
        refused(values, word)
    for change in [{"replicas": 2}, {"form": "daemonset"}, {"metrics": {"port": 80}}, {"image": {"digest": "sha256:1"}}]:
        values = copy.deepcopy(of("agent"))
        values.update(change)
        refused(values, next(iter(change)))
    values = of("cronjob")
    values["cronjob"]["schedule"] = ""
    refused(values, "cronjob.schedule")


def of_the_recipe():
    """The values of the recipe, and the pod that its commands name."""
    page = pathlib.Path(PAGE).read_text()
    block = page.split("```yaml\n# values.yml\n")[1].split("```")[0]
    kinds = render(yaml.safe_load(block))
    configuration(kinds)
    name = kinds["StatefulSet"]["metadata"]["name"]
    assert f"kubectl exec {name}-0 -c seawall --" in page
    assert kinds["StatefulSet"]["spec"]["template"]["spec"]["initContainers"][1]["name"] == "seawall"


for test in [agent, sidecar, cronjob, wrong_values, of_the_recipe]:
    test()
findings = helm_python.lint(CHART)
assert not findings["errors"], findings
print("Helm", helm_python.helm_sdk_version(), "Kubernetes", *KUBERNETES)
