"""What of our environment a process that makes models sees."""

from inferbench_tasks import sandbox


def test_secrets_do_not_reach_such_a_process() -> None:
    """An allow-list, and of what it allows nothing that is called like a secret; PerfDB's address only if named."""
    secrets = {
        "AIRFLOW__API_AUTH__JWT_SECRET": "x", "AIRFLOW__CORE__FERNET_KEY": "x",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "x", "AIRFLOW__CELERY__BROKER_URL": "x", "INFERBENCH_PERFDB_URI": "x",
        "MONGO_INITDB_ROOT_PASSWORD": "x", "INFERBENCH_REDIS_PASSWORD": "x", "AWS_SECRET_ACCESS_KEY": "x",
        "HF_TOKEN": "x", "SSH_AUTH_SOCK": "x", "INFERBENCH_BROKER_URL": "x", "INFERBENCH_METADATA_DB": "x",
        "INFERBENCH_NIGHTLY_NOTIFY": "x", "HTTPS_PROXY": "http://user:x@proxy:1", "XDG_OTHER": "redis://:x@broker/0",
    }  # fmt: skip
    plain = {"PATH": "/bin", "HOME": "/root", "INFERBENCH_DATA_DIR": "/d", "LC_ALL": "C", "PYTHONPATH": "p"}
    plain |= {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}  # how memory lies decides on times
    assert sandbox.environment(secrets | plain) == plain
    also = sandbox.environment(secrets | plain, ["INFERBENCH_PERFDB_URI"])
    assert also == plain | {"INFERBENCH_PERFDB_URI": "x"}


def test_logins_of_package_indexes_reach_only_what_installs_for_itself() -> None:
    """The settings of installers are for who may install; the logins in them not for who runs a model of others."""
    open_ = {"PIP_INDEX_URL": "https://index/simple", "UV_LINK_MODE": "copy", "PATH": "/bin"}
    logins = {
        "PIP_EXTRA_INDEX_URL": "https://user:x@index/simple", "UV_INDEX_TEAM_PASSWORD": "x",
        "UV_DEFAULT_INDEX": "https://token@index/simple", "HTTPS_PROXY": "http://user:x@proxy:1",
    }  # fmt: skip
    every = open_ | logins
    assert sandbox.environment(every) == {"PATH": "/bin"}
    assert sandbox.environment(every, installs=True) == open_
    assert sandbox.environment(every, installs=True, credentials=True) == every
    assert sandbox.environment({"AWS_SECRET_KEY": "x"}, installs=True, credentials=True) == {}
