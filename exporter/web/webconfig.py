"""The web configuration file of Prometheus exporters: TLS, client certificates, basic auth, response headers."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import yaml

from exporter.config.option import ConfigError

_OPTION = "--web.config.file"
_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_TLS_KEYS = frozenset({"cert_file", "key_file", "client_auth_type", "client_ca_file", "min_version", "max_version"})
_CLIENT_AUTH = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}


@dataclass(frozen=True, slots=True)
class Tls:
    cert_file: Path
    key_file: Path
    client_auth: ssl.VerifyMode = ssl.CERT_NONE
    client_ca_file: Path | None = None
    min_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    max_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(path for path in (self.cert_file, self.key_file, self.client_ca_file) if path)


@dataclass(frozen=True, slots=True)
class WebConfig:
    """What the file says. `users` maps a name to its bcrypt hash; empty means no authentication."""

    tls: Tls | None = None
    users: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: tuple[tuple[str, str], ...] = ()


def load(path: Path) -> WebConfig:
    """Read the file. Raises ConfigError with one line that names the file and what was expected."""
    try:
        content = yaml.safe_load(path.read_text())
    except OSError as error:
        raise ConfigError(f"{_OPTION} {path}: {error.strerror or error}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{_OPTION} {path}: not YAML: {' '.join(str(error).split())}") from None
    top = _mapping(path, "the file", content if content is not None else {})
    _refuse_unknown(path, "", top, {"tls_server_config", "http_server_config", "basic_auth_users"})
    http = _mapping(path, "http_server_config", top.get("http_server_config") or {})
    _refuse_unknown(path, "http_server_config.", http, {"http2", "headers"})
    headers = _mapping(path, "http_server_config.headers", http.get("headers") or {})
    return WebConfig(
        tls=_tls(path, _mapping(path, "tls_server_config", top.get("tls_server_config") or {})),
        users=_users(path, _mapping(path, "basic_auth_users", top.get("basic_auth_users") or {})),
        headers=tuple((str(name), str(value)) for name, value in headers.items()),
    )


def _tls(path: Path, content: Mapping[str, Any]) -> Tls | None:
    if not content:
        return None
    _refuse_unknown(path, "tls_server_config.", content, _TLS_KEYS)
    for key in ("cert_file", "key_file"):
        if not content.get(key):
            raise ConfigError(f"{_OPTION} {path}: tls_server_config needs {key}")
    ca = content.get("client_ca_file")
    client_auth = _one_of(path, content, "client_auth_type", _CLIENT_AUTH, "NoClientCert")
    if client_auth is not ssl.CERT_NONE and not ca:
        raise ConfigError(f"{_OPTION} {path}: client_auth_type needs client_ca_file")
    return Tls(
        cert_file=path.parent / str(content["cert_file"]),
        key_file=path.parent / str(content["key_file"]),
        client_auth=client_auth,
        client_ca_file=path.parent / str(ca) if ca else None,
        min_version=_one_of(path, content, "min_version", _VERSIONS, "TLS12"),
        max_version=_one_of(path, content, "max_version", _VERSIONS, "TLS13"),
    )


def _users(path: Path, content: Mapping[str, Any]) -> dict[str, str]:
    for name, hashed in content.items():
        if not str(hashed).startswith(("$2a$", "$2b$", "$2y$")):
            raise ConfigError(f"{_OPTION} {path}: basic_auth_users.{name}: expected a bcrypt hash")
    return {str(name): str(hashed) for name, hashed in content.items()}


def _one_of(path: Path, content: Mapping[str, Any], key: str, known: Mapping[str, Any], default: str) -> Any:
    value = str(content.get(key) or default)
    if value not in known:
        raise ConfigError(f"{_OPTION} {path}: {key}: expected one of {', '.join(known)}, got {value!r}")
    return known[value]


def _mapping(path: Path, what: str, content: object) -> Mapping[str, Any]:
    if not isinstance(content, dict):
        raise ConfigError(f"{_OPTION} {path}: {what}: expected a mapping, got {content!r}")
    return cast("Mapping[str, Any]", content)


def _refuse_unknown(path: Path, prefix: str, content: Iterable[str], known: Iterable[str]) -> None:
    for key in sorted(set(content) - set(known)):
        raise ConfigError(f"{_OPTION} {path}: unknown key {prefix}{key}")
