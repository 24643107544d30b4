"""The workflows that `chaos init --ci` can write: one entry of `SYSTEMS` for each CI system."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class System:
    """A CI system.

    Attributes:
        file: path of its workflow from the root of the repository.
        runs: when it runs the scenarios.
        template: text of the workflow; names in angle brackets are replaced (`Job`).
        entry: the file that the system itself reads, if that is another one; it is only written if there is none.
        include: the line of `entry` that includes the workflow.
        by_hand: the step that is left to the user; "" if there is none.
    """

    file: str
    runs: str
    template: str
    entry: str = ""
    include: str = ""
    by_hand: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """Values that differ between repositories.

    Attributes:
        install: the command that installs this package.
        packages: the file that names the packages to install.
        scenarios: the arguments of pytest after `-m chaos`, quoted for a shell.
    """

    install: str
    packages: str
    scenarios: str


def text(system: System, job: Job) -> str:
    """Return the text of a workflow."""
    values = {"install": job.install, "packages": json.dumps(job.packages), "scenarios": job.scenarios}
    return re.sub(r"<(install|packages|scenarios)>", lambda found: values[found[1]], system.template)


_GITHUB = """\
# Written by `chaos init --ci github`; it is yours now. It runs the scenarios on each pull request and each night, and is red
# if one of them is not VALID. To run them on your machine: pytest -m chaos <scenarios>
name: chaos
on:
  pull_request:
  schedule:
    - cron: "17 1 * * *"  # in UTC
  workflow_dispatch:  # a button on the page Actions
permissions:
  contents: read
concurrency:  # a newer push to a pull request ends the run of the one before; nightly runs are not ended
  group: ${{ github.workflow }}-${{ github.ref }}
  cancel-in-progress: ${{ github.event_name == 'pull_request' }}
jobs:
  scenarios:
    runs-on: ubuntu-latest  # 4 GB of memory must be free, and neither Docker nor root is needed
    timeout-minutes: 60
    env:
      CHAOS_CACHE: ${{ github.workspace }}/.chaos-cache  # Kafka's and Spark's jars, and Toxiproxy
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with: {python-version: "3.11", cache: pip, cache-dependency-path: <packages>}
      - uses: actions/setup-java@v4
        with: {distribution: temurin, java-version: "17"}
      - name: Install
        # For a package index with a password, add env: {PIP_INDEX_URL: "${{ secrets.PIP_INDEX_URL }}"}
        run: |
          <install>
      - name: Check the machine
        run: chaos doctor
      - name: Make the key of the cache from the versions
        id: versions
        run: |
          versions=$(python --version; java -version 2>&1; pip freeze | grep -i -e kafka.spark.chaos -e pyspark)
          echo "digest=$(sha256sum <<< "$versions" | cut -c1-16)" >> "$GITHUB_OUTPUT"
      - uses: actions/cache/restore@v4
        id: cache
        with:
          path: |  # class archives fit only the PySpark of this job
            .chaos-cache/*
            !.chaos-cache/archives-*
          key: chaos-parts-${{ runner.os }}-${{ runner.arch }}-${{ steps.versions.outputs.digest }}
      - name: Fetch the parts that are not in the cache
        run: chaos parts
      - uses: actions/cache/save@v4  # now, because actions/cache would save nothing if a scenario is red
        if: steps.cache.outputs.cache-hit != 'true'
        with:
          path: |  # class archives fit only the PySpark of this job
            .chaos-cache/*
            !.chaos-cache/archives-*
          key: ${{ steps.cache.outputs.cache-primary-key }}
      - name: Run the scenarios
        id: scenarios
        timeout-minutes: 45  # before the job's own limit, which would leave no time for the reports
        run: >-
          pytest -m chaos <scenarios>
          --junitxml=chaos-reports/junit.xml
          --chaos-html=chaos-reports/report.html
          --alluredir=chaos-reports/allure-results
      - name: Show the verdicts on the page of the run
        if: always() && steps.scenarios.outcome != 'skipped'
        run: if [ -d runs ]; then chaos table runs --markdown >> "$GITHUB_STEP_SUMMARY"; fi
      - uses: actions/upload-artifact@v4
        if: always() && steps.scenarios.outcome != 'skipped'  # the reports of a red run matter most
        with:
          name: chaos
          retention-days: 14
          path: |
            chaos-reports
            runs
"""
_GITLAB = """\
# Written by `chaos init --ci gitlab`; it is yours now. It runs the scenarios on each merge request and in each scheduled
# pipeline, and is red if one of them is not VALID. To run them on your machine: pytest -m chaos <scenarios>
chaos:
  stage: test  # one of yours, if you have `stages:`
  image: python:3.11-bookworm  # 4 GB of memory must be free; Docker is not needed inside
  rules:
    - if: $CI_PIPELINE_SOURCE == "merge_request_event"
    - if: $CI_PIPELINE_SOURCE == "schedule"
    - if: $CI_PIPELINE_SOURCE == "web"  # a button on the page Pipelines
  interruptible: true  # a newer push to a merge request ends the run of the one before
  timeout: 60m
  variables:
    RUNNER_SCRIPT_TIMEOUT: 50m  # before the job's own limit, which would leave no time for the reports
    CHAOS_CACHE: $CI_PROJECT_DIR/.chaos-cache  # Kafka's and Spark's jars, and Toxiproxy
    PIP_CACHE_DIR: $CI_PROJECT_DIR/.chaos-cache/pip
  cache:
    key: chaos-parts
    when: always  # otherwise nothing is kept if a scenario is red
    paths: [.chaos-cache/]
  before_script:
    - apt-get update -qq && apt-get install -y -qq --no-install-recommends openjdk-17-jdk-headless
    # For a package index with a password, set PIP_INDEX_URL, a masked variable of the project
    - |
      <install>
    - chaos doctor  # checks what this machine lacks
    - chaos parts  # fetches the parts that are not in the cache
  script:
    - >-
      pytest -m chaos <scenarios>
      --junitxml=chaos-reports/junit.xml
      --chaos-html=chaos-reports/report.html
      --alluredir=chaos-reports/allure-results
  after_script:
    - if [ -d runs ]; then chaos table runs; fi
  artifacts:
    when: always  # the reports of a red run matter most
    expire_in: 2 weeks
    reports:
      junit: chaos-reports/junit.xml
    paths:
      - chaos-reports/
      - runs/
"""

SYSTEMS: Mapping[str, System] = {
    "github": System(".github/workflows/chaos.yml", "on each pull request and each night", _GITHUB),
    "gitlab": System(
        "chaos.gitlab-ci.yml",
        "on each merge request and in each scheduled pipeline",
        _GITLAB,
        entry=".gitlab-ci.yml",
        include="include: {local: /chaos.gitlab-ci.yml}",
        by_hand="for each night, add a schedule on the page Build > Pipeline schedules: 17 1 * * *",
    ),
}
