# The command as an image: Python, a Java, the wheel, and the parts. Nothing is fetched when it runs.
#
#   docker build --file containers/chaos.Dockerfile --tag kafka-spark-chaos dist     # a folder with the wheel
#   docker run --rm --volume "$PWD:/work" kafka-spark-chaos pytest -m chaos
#
# It is another image than that of containers/Dockerfile, which is for the processes of `--chaos-runtime containers`.
ARG BASE=python:3.11-slim-bookworm
FROM ${BASE}
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*
RUN --mount=type=bind,target=/dist pip install --no-cache-dir /dist/*.whl
ENV CHAOS_CACHE=/opt/chaos-parts
RUN chaos parts
WORKDIR /work
CMD ["kafka-spark-chaos", "--help"]
LABEL org.opencontainers.image.title="kafka-spark-chaos" org.opencontainers.image.licenses="Apache-2.0"
