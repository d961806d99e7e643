"""compose.yaml and the Dockerfile, without Docker: the specification's schema, and what they name."""

import importlib.util
import json
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from api.settings import Settings
from workers.settings import SenderSettings, WorkerSettings

ROOT = Path(__file__).parent.parent
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if "build" in service}
DOCKERFILE = (ROOT / "Dockerfile").read_text()

STAGE = re.compile(r"^FROM (?P<parent>\S+) AS (?P<name>\S+)$", re.MULTILINE)
#: A stage's lines that take files of another one.
FROM_STAGE = re.compile(r"--(?:from=|mount=from=)([\w-]+)")


def stages() -> dict[str, tuple[str, str]]:
    """Name -> (parent, instructions)."""
    found = list(STAGE.finditer(DOCKERFILE))
    ends = [match.start() for match in found[1:]] + [len(DOCKERFILE)]
    return {
        match["name"]: (match["parent"], DOCKERFILE[match.end() : end])
        for match, end in zip(found, ends, strict=True)
    }


def closure(stage: str) -> str:
    """Every instruction whose files can reach the image of `stage`."""
    known = stages()
    parent, body = known[stage]
    return body + "".join(
        closure(name) for name in [parent, *FROM_STAGE.findall(body)] if name in known
    )


def modules_of(service: dict[str, Any]) -> list[str]:
    """Each `python -m MODULE` in a service's command and health check."""
    lines = [service["command"], service.get("healthcheck", {}).get("test", [])]
    return [line[line.index("-m") + 1] for line in lines if "-m" in line]


def seconds(duration: str) -> int:
    number, unit = re.fullmatch(r"(\d+)([sm])", duration).groups()  # type: ignore[union-attr]
    return int(number) * {"s": 1, "m": 60}[unit]


def test_compose_yaml_obeys_the_compose_specification() -> None:
    schema = json.loads((ROOT / "tests/data/compose-spec.json").read_text())
    jsonschema.validate(COMPOSE, schema, cls=jsonschema.Draft202012Validator)


def test_the_schema_refuses_what_the_specification_does_not_know() -> None:
    schema = json.loads((ROOT / "tests/data/compose-spec.json").read_text())
    broken = {**COMPOSE, "services": {"api": {**SERVICES["api"], "health_check": {}}}}
    with pytest.raises(jsonschema.ValidationError, match="health_check"):
        jsonschema.validate(broken, schema, cls=jsonschema.Draft202012Validator)


def test_the_whole_service_is_there() -> None:
    assert set(SERVICES) == {
        "migrate",
        "api",
        "worker",
        "sweeper",
        "webhooks",
        "postgres",
        "valkey",
    }


@pytest.mark.parametrize("name", OURS)
def test_every_module_that_a_service_runs_exists(name: str) -> None:
    for module in modules_of(OURS[name]):
        spec = importlib.util.find_spec(module)
        assert spec is not None
        if spec.submodule_search_locations:
            assert importlib.util.find_spec(f"{module}.__main__"), (
                f"python -m {module} runs nothing"
            )


@pytest.mark.parametrize("name", OURS)
def test_every_weighbridge_command_that_a_service_runs_exists(name: str) -> None:
    command = OURS[name]["command"]
    assert command[0] in ("python", "weighbridge")
    if command[0] == "weighbridge":
        program = Path(sys.executable).with_name("weighbridge")
        subprocess.run([program, *command[1:], "--help"], check=True, capture_output=True)


@pytest.mark.parametrize("name", OURS)
def test_every_service_is_built_from_a_stage_of_the_dockerfile(name: str) -> None:
    assert OURS[name]["build"]["target"] in stages()


@pytest.mark.parametrize("name", OURS)
def test_every_variable_that_a_service_sets_is_a_setting(name: str) -> None:
    known = {f"WEIGHBRIDGE_{field}".upper() for field in {**Settings.model_fields}}
    known |= {f"WEIGHBRIDGE_{field}".upper() for field in WorkerSettings.model_fields}
    assert set(OURS[name]["environment"]) <= known | {"DATABASE_URL", "REDIS_URL"}


def test_no_secret_has_a_default() -> None:
    text = (ROOT / "compose.yaml").read_text()
    assert re.findall(r"\$\{(?!\w+:\?)[^}]*\}", text) == []
    for line in re.findall(r"^.*PASSWORD.*:.*$", text, re.MULTILINE):
        assert "PASSWORD:?" in line or line.startswith("#")


def test_a_stopping_worker_has_time_for_what_it_has_claimed() -> None:
    lease: float = WorkerSettings.model_fields["lease_seconds"].default
    assert seconds(SERVICES["worker"]["stop_grace_period"]) > lease


def test_a_stopping_sender_has_time_for_what_it_has_called() -> None:
    timeout: float = SenderSettings.model_fields["webhook_timeout_seconds"].default
    assert seconds(SERVICES["webhooks"]["stop_grace_period"]) > timeout


@pytest.mark.parametrize("name", set(SERVICES) - {"migrate", "sweeper", "webhooks"})
def test_services_that_others_wait_for_have_health_checks(name: str) -> None:
    assert "test" in SERVICES[name]["healthcheck"]


def test_ports_are_published_on_loopback_only() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert ports == ["127.0.0.1:8000:8000"]


@pytest.mark.parametrize("stage", ["api", "worker"])
def test_images_run_as_an_ordinary_user_and_carry_no_secret(stage: str) -> None:
    _, body = stages()[stage]
    assert re.findall(r"^USER (.+)$", body, re.MULTILINE) == ["weighbridge"]
    assert not re.search(r"PASSWORD|SECRET|TOKEN|KEY", closure(stage))


def test_a_build_without_a_target_makes_the_api_image() -> None:
    assert list(stages())[-1] == "api"


def test_the_engine_is_installed_in_the_worker_image_alone() -> None:
    assert "engine.txt" in closure("worker")
    installs = [line for line in closure("api").splitlines() if "pip install" in line]
    assert installs
    assert not any("engine" in line or "torch" in line or "[" in line for line in installs)


def test_nothing_that_the_api_image_installs_asks_for_torch() -> None:
    seen: set[str] = set()
    asked = [Requirement(line) for line in requires("weighbridge") or []]
    while asked:
        requirement = asked.pop()
        name = canonicalize_name(requirement.name)
        if name in seen or not wanted(requirement):
            continue
        seen.add(name)
        try:
            asked += [Requirement(line) for line in requires(name) or []]
        except PackageNotFoundError:
            continue
    assert "sqlalchemy" in seen
    assert not seen & {"torch", "transformers", "triton"}


def wanted(requirement: Requirement) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": ""})


@pytest.mark.parametrize("name", [n for n, s in OURS.items() if s["build"]["target"] == "api"])
def test_what_the_api_image_runs_loads_without_torch(name: str) -> None:
    modules = modules_of(OURS[name]) or ["cli.main"]
    imports = "; ".join(f"import {module}" for module in modules)
    code = f"import sys; sys.modules['torch'] = sys.modules['transformers'] = None; {imports}"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
