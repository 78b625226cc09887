"""What MLflow itself writes into an empty SQLite file: its tables, which the logger creates (`src/loggers/mlflow/schema.sql`), and
the rows of one run (`fixtures/mlflow.json`), with which the logger's rows are compared.

    python3 -m venv venv && venv/bin/pip install mlflow-skinny==3.13.0 alembic pandas sqlalchemy
    venv/bin/python record_mlflow.py
"""

import json
import math
import sqlite3
import tempfile
from pathlib import Path

import mlflow
from mlflow.entities import Metric, Param, RunTag
from mlflow.tracking import MlflowClient

HERE = Path(__file__).parent
TABLES = ["experiments", "runs", "params", "tags", "metrics", "latest_metrics"]


def schema(tables):
    """The statements that create the tables, and the version of the schema."""
    statements = tables.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'")
    lines = [f"-- The tables of MLflow {mlflow.__version__}, written by tests/record_mlflow.py."]
    for (sql,) in statements:
        words = " ".join(sql.split())
        lines.append(f"{words};")
    # Rows that every new file has. The experiment `Default` has a path and a time of its own.
    lines += [line for line in tables.iterdump() if line.startswith("INSERT") and 'INTO "experiments"' not in line]
    return "\n".join(lines) + "\n"


def log(client):
    """The run that `the_rows_are_those_that_mlflow_writes` in `mlflow/database.rs` logs."""
    experiment = client.create_experiment("pole")
    tags = {"mlflow.runName": "first run", "mlflow.source.name": "pavlov", "mlflow.source.type": "LOCAL"}
    run = client.create_run(experiment, tags=tags | {"pavlov.run_directory": "DIRECTORY"}).info.run_id
    settings = {"lr": "0.001", "model.fcnet_hiddens": "[8,8]", "env": "CartPole-v1"}
    client.log_batch(run, params=[Param(key, value) for key, value in settings.items()])
    for iteration in [1, 2]:
        step = 100 * iteration
        numbers = {
            "training_iteration": iteration,
            "time/timesteps_total": step,
            "rollout/episode_reward_mean": 1.5 * iteration,
            "train/kl": 0.25 if iteration == 1 else math.nan,
            "rollout/custom_metrics/leaning_mean": 0.5,
            "odd name_": 1.0,
            "a": 1,
        }
        client.log_batch(run, metrics=[Metric(key, value, 1, step) for key, value in numbers.items()])
    client.set_terminated(run)


def rows(tables):
    """All rows, with the same words for what differs from run to run."""
    found = {}
    for table in TABLES:
        columns = [column[1] for column in tables.execute(f"PRAGMA table_info({table})")]
        lines = []
        for row in tables.execute(f"SELECT * FROM {table}").fetchall():
            line = dict(zip(columns, row))
            for name, value in line.items():
                if name == "run_uuid":
                    line[name] = "RUN"
                elif name == "timestamp" or name.endswith("_time") and value is not None:
                    line[name] = "TIME"
                elif name.startswith("artifact_"):
                    line[name] = "ARTIFACTS"
            lines.append(line)
        found[table] = sorted(lines, key=lambda line: json.dumps(line, sort_keys=True))
    return found


with tempfile.TemporaryDirectory() as home:
    client = MlflowClient(tracking_uri=f"sqlite:///{home}/mlflow.db")
    client.search_experiments()
    tables = sqlite3.connect(f"{home}/mlflow.db")
    (HERE / "../src/loggers/mlflow/schema.sql").write_text(schema(tables))
    log(client)
    text = json.dumps(rows(tables), indent=1, sort_keys=True)
    (HERE / "fixtures/mlflow.json").write_text(text + "\n")
