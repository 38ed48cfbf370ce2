# A server in a small image: docker build -t amforest . ; see docs/serving.md
FROM python:3.11-slim AS build
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ make \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
RUN python -m venv /opt/amforest && /opt/amforest/bin/pip install --no-cache-dir '.[serve]'

FROM python:3.11-slim
RUN useradd --system --uid 10001 --home-dir /var/lib/amforest --create-home amforest
COPY --from=build /opt/amforest /opt/amforest
ENV PATH=/opt/amforest/bin:$PATH PYTHONUNBUFFERED=1
USER amforest
WORKDIR /var/lib/amforest
VOLUME /var/lib/amforest
EXPOSE 8000
# The tokens come from the variables AMFOREST_TOKEN and AMFOREST_PREDICT_TOKEN.
ENTRYPOINT ["amforest", "serve", "--host", "0.0.0.0", "--port", "8000", \
    "--checkpoint", "/var/lib/amforest/saved", "--durable"]
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s CMD \
    ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
STOPSIGNAL SIGTERM
