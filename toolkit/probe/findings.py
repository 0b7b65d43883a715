"""The findings of a probe about an address, as text and JSON."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from messenger.cephx.client import CephxClient
from messenger.cephx.exchange import AuthMethod
from messenger.cephx.keyring import Keyring
from messenger.cephx.keys import CryptoKey
from messenger.denc.address import AddressType, EntityAddr
from messenger.denc.entity import AuthName, EntityType
from messenger.denc.features import Msgr2Feature, feature_names
from messenger.errors import Fault, FaultError, FaultReason, LocalError
from messenger.messages.monmap import MonMap
from toolkit.network.host_names import numeric
from toolkit.probe.monitor import MonitorSession
from toolkit.probe.wire import WireFindings, ask
from toolkit.probe.wire_v1 import V1Findings
from toolkit.report.terminal import shown_line

_DEFAULT_PORTS = {AddressType.MSGR2: 3300, AddressType.LEGACY: 6789}


@dataclass(slots=True)
class ClusterFindings:
    """The monitor's answers after the login; None for a question that it did not answer."""

    name: AuthName
    global_id: int
    mode: str
    """Connection mode of the session."""
    features: int
    """Negotiated feature mask."""
    monmap: MonMap | None = None
    osdmap_epoch: int | None = None
    settings: dict[str, str] | None = None
    status: Any = None
    """The answer to ``ceph status``, decoded from JSON: an object, unless the monitor is faulty."""


@dataclass(slots=True)
class Findings:
    """The findings about an address, and the fault that ended the probe."""

    addr: EntityAddr
    wire: WireFindings = field(default_factory=WireFindings)
    cluster: ClusterFindings | None = None
    fault: Fault | None = None
    notes: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return the findings as a JSON object."""
        values: dict[str, Any] = {"addr": str(self.addr)}
        if self.wire.protocol:
            values |= _wire_json(self.wire)
        if self.cluster is not None:
            values |= _cluster_json(self.cluster)
        values["notes"] = self.notes
        values["error"] = {"reason": self.fault.reason.name, "text": str(self.fault)} if self.fault else None
        return values

    def as_text(self) -> list[tuple[str, str]]:
        """Return label and text of each line to print."""
        lines = [("address", str(self.addr))]
        if self.wire.protocol:
            lines += _wire_text(self.wire)
        if self.cluster is not None:
            lines += _cluster_text(self.cluster)
        lines += [("note", note) for note in self.notes]
        if self.fault is not None:
            lines.append(("error", str(self.fault)))
        return lines


def parse_target(text: str) -> EntityAddr:
    """Parse the address to probe; the default is v2, and the default port that of a monitor (3300, v1 6789).

    Raises:
        LocalError: it is not an address, or the host name cannot be resolved.
    """
    addr = EntityAddr.parse(numeric(text), AddressType.MSGR2)
    return (
        addr if addr.port else replace(addr, port=_DEFAULT_PORTS.get(addr.type, _DEFAULT_PORTS[AddressType.MSGR2]))
    )


async def investigate(addr: EntityAddr, name_text: str, keyring: Path | None, timeout_s: float) -> Findings:
    """Probe an address, and with a keyring log in to the monitor there; ``fault`` has what ended the probe.

    Raises:
        LocalError: the name or the keyring cannot be used.
    """
    name = AuthName.parse(name_text)
    key = Keyring.load(keyring).key(name) if keyring is not None else None
    findings = Findings(addr)
    try:
        await ask(addr, name, timeout_s, findings.wire)
        if findings.wire.protocol == "v1":
            findings.notes.append("this port speaks msgr v1 only; monitors usually speak v2 on port 3300")
        elif key is not None:
            await _log_in(findings, name, key, timeout_s)
    except FaultError as error:
        findings.fault = error.fault
    except TimeoutError as error:
        if findings.cluster is None:
            findings.fault = Fault(FaultReason.READY_TIMEOUT, f"no answer within {timeout_s:g} s")
        else:  # a monitor ignores requests that the key's capabilities do not allow
            findings.fault = Fault(
                FaultReason.IDLE_TIMEOUT, f"{error}; the capabilities of {name} may not allow it"
            )
    return findings


async def _log_in(findings: Findings, name: AuthName, key: CryptoKey, timeout_s: float) -> None:
    if findings.wire.entity_type is not EntityType.MON:
        findings.notes.append("no login: only monitors accept a key; other daemons need a ticket from a monitor")
        return
    if AuthMethod.CEPHX not in findings.wire.methods:
        findings.notes.append("the monitor does not use cephx; the keyring is ignored")
        return
    client = CephxClient(name, key)
    async with MonitorSession(findings.addr, client, timeout_s=timeout_s) as session:
        mode = session.connection.connection_mode
        cluster = findings.cluster = ClusterFindings(
            name=name,
            global_id=client.global_id,
            mode=mode.name.lower() if mode else "",
            features=session.connection.session.features,
        )
        cluster.monmap = await session.monmap()
        cluster.osdmap_epoch = await session.newest_version("osdmap")
        cluster.settings = await session.settings()
        try:
            cluster.status = await session.command(cluster.monmap, "status")
        except LocalError as error:
            findings.notes.append(str(error))


def _wire_json(wire: WireFindings) -> dict[str, Any]:
    return {
        "protocol": wire.protocol,
        "entity_type": wire.entity_type.label if wire.entity_type else None,
        "msgr2_features": _msgr2_names(wire.msgr2_supported),
        "msgr2_required": _msgr2_names(wire.msgr2_required),
        "seen_as": str(wire.seen_as) if wire.seen_as else None,
        "v1": _v1_json(wire.v1) if wire.v1 else None,
        "methods": [method.name.lower() for method in wire.methods],
        "modes": {
            method.name.lower(): [mode.name.lower() for mode in modes] for method, modes in wire.modes.items()
        },
    }


def _wire_text(wire: WireFindings) -> list[tuple[str, str]]:
    if wire.v1 is not None:
        return _v1_text(wire.v1)
    lines = [
        ("protocol", "msgr v2" + (".1" if wire.msgr2_supported & Msgr2Feature.REVISION_1 else ".0")),
        ("peer", wire.entity_type.label if wire.entity_type else "unknown"),
        ("msgr2 features", ", ".join(_msgr2_names(wire.msgr2_supported)) or "none"),
        ("sees us as", str(wire.seen_as)),
        ("auth methods", ", ".join(method.name.lower() for method in wire.methods) or "none listed"),
    ]
    for method, modes in wire.modes.items():
        names = ", ".join(mode.name.lower() for mode in modes) or "no mode for this entity"
        lines.append((f"modes with {method.name.lower()}", names))
    return lines


def _v1_json(v1: V1Findings) -> dict[str, Any]:
    return {
        "addr": str(v1.addr),
        "protocol_version": v1.protocol_version,
        "features": f"0x{v1.supported:016x}",
        "features_required": f"0x{v1.required:016x}",
    }


def _v1_text(v1: V1Findings) -> list[tuple[str, str]]:
    peer = v1.entity_type.label if v1.entity_type else "unknown"
    version = "unknown" if v1.protocol_version is None else str(v1.protocol_version)
    return [
        ("protocol", "msgr v1"),
        ("peer", f"{peer}, protocol version {version}"),
        ("announces", str(v1.addr)),
        ("sees us as", str(v1.seen_as)),
        ("features", f"0x{v1.supported:016x}: {', '.join(feature_names(v1.supported))}"),
        ("requires", f"0x{v1.required:016x}: {', '.join(feature_names(v1.required))}"),
    ]


def _msgr2_names(mask: int) -> list[str]:
    return [feature.name.lower() for feature in Msgr2Feature if mask & feature and feature.name]


def _cluster_json(cluster: ClusterFindings) -> dict[str, Any]:
    return {
        "logged_in_as": str(cluster.name),
        "global_id": cluster.global_id,
        "mode": cluster.mode,
        "features": f"0x{cluster.features:016x}",
        "feature_names": feature_names(cluster.features),
        **(_monmap_json(cluster.monmap) if cluster.monmap is not None else {}),
        "osdmap_epoch": cluster.osdmap_epoch,
        "settings": cluster.settings,
        "status": cluster.status,
    }


def _monmap_json(monmap: MonMap) -> dict[str, Any]:
    return {
        "fsid": str(monmap.fsid),
        "monmap": {
            "epoch": monmap.epoch,
            "min_mon_release": monmap.min_mon_release,
            "mons": [{"name": mon.name, "addrs": str(mon.public_addrs)} for mon in monmap.ranked],
        },
    }


def _cluster_text(cluster: ClusterFindings) -> list[tuple[str, str]]:
    lines = [
        ("logged in as", f"{cluster.name}, global_id {cluster.global_id}, mode {cluster.mode}"),
        ("features", f"0x{cluster.features:016x}: {', '.join(feature_names(cluster.features))}"),
    ]
    monmap = cluster.monmap
    if monmap is not None:
        mons = "\n".join(f"{shown_line(mon.name)}: {mon.public_addrs}" for mon in monmap.ranked)
        about = f"epoch {monmap.epoch}, min_mon_release {monmap.min_mon_release}\n{mons}"
        lines += [("fsid", str(monmap.fsid)), ("monmap", about)]
    if cluster.osdmap_epoch is not None:
        lines.append(("osdmap", f"epoch {cluster.osdmap_epoch}"))
    if cluster.settings is not None:
        settings = ", ".join(f"{k} = {v}" for k, v in cluster.settings.items())
        lines.append(("settings", shown_line(settings or "none for this client")))
    if isinstance(cluster.status, dict):
        lines += [(label, shown_line(text)) for label, text in _status_text(cluster.status)]
    return lines


def _status_text(status: dict[str, Any]) -> list[tuple[str, str]]:
    health = _object(status, "health")
    checks = ", ".join(_object(health, "checks"))
    quorum = status.get("quorum_names")
    osds = _object(status, "osdmap")
    osds = _object(osds, "osdmap") or osds  # one level deeper until Nautilus
    up = f"{osds.get('num_osds', 0)} osds, {osds.get('num_up_osds', 0)} up, {osds.get('num_in_osds', 0)} in"
    return [
        ("health", f"{health.get('status', 'unknown')}" + (f" ({checks})" if checks else "")),
        ("quorum", ", ".join(map(str, quorum)) if isinstance(quorum, list) else ""),
        ("osds", up),
    ]


def _object(values: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the object ``name`` of a monitor's answer; empty if it is missing or not an object."""
    found = values.get(name)
    return found if isinstance(found, dict) else {}
