"""Faults in everything else: the driver, the host, the accounting, pages, the network, panels."""

from __future__ import annotations

from tests.planted import faults_of_time
from tests.planted.fault import Fault

FAULTS = (
    *faults_of_time.FAULTS,
    # What the driver says
    Fault(
        "collectors/power.py",
        "else Watts(milliwatts / 1000)",
        "else Watts(milliwatts / 100)",
        "unit/collectors/test_collectors_readings.py",
    ),
    Fault("collectors/utilization.py", "late = tick.late()", "late = 0.0", "unit/collectors/test_sample_buffers.py"),
    Fault("collectors/sample_integral.py", "if each[0] > before.cursor]", "]", "unit/collectors/test_busy_seconds.py"),
    Fault(
        "collectors/sample_integral.py",
        "buffer.span or unknown) if buffer.is_hole(distance)",
        "distance) if buffer.is_hole(distance)",
        "unit/collectors/test_sample_buffers.py",
    ),
    Fault(
        "collectors/sample_integral.py",
        "if buffer.keeps_idle is not False:\n            lost",
        "if False:\n            lost",
        "unit/collectors/test_sample_buffers.py",
    ),
    Fault(
        "collectors/sample_integral.py",
        "(not span or keeps_idle is not False)",
        "True",
        "unit/collectors/test_sample_buffers.py",
    ),
    Fault("sampling/sampler.py", "(self._phase + GOLDEN_RATIO)", "(self._phase)", "unit/sampling/test_extra_reads.py"),
    Fault(
        "ledger/division.py", "counted.seconds - counted.lost)", "counted.seconds)", "contract/cycles/test_stalls.py"
    ),
    Fault(
        "host/network.py",
        "self._known = {inode: each for inode, each in self._known.items() if inode in sockets}",
        "self._known = dict(self._known)",
        "unit/host/test_peer_receives.py",
    ),
    Fault("host/network.py", "bool(owners) and pid not in owners", "bool(owners)", "unit/host/test_peer_receives.py"),
    Fault(
        "ledger/states/host_waits.py",
        "min(1.0, own.blocked / evidence.wait)",
        "1.0",
        "unit/ledger/test_evidence_in_time.py",
    ),
    Fault(
        "ledger/states/host_waits.py",
        "evidence.own.polling and (quiet or on_demand)",
        "evidence.own.polling and quiet",
        "unit/ledger/test_evidence_in_time.py",
    ),
    Fault(
        "collectors/processes.py",
        "<= tick.time - used.told_at <= _HOLD",
        "<= tick.time - used.told_at",
        "unit/collectors/test_gpu_processes.py",
    ),
    Fault(
        "collectors/xid.py",
        "max(counts.get((xid, class_), 0), count)",
        "counts.get((xid, class_), 0) + count",
        "unit/collectors/test_xid.py",
    ),
    Fault("collectors/xid.py", "{domain:04x}", "{domain:08x}", "unit/collectors/test_xid.py"),
    Fault("driver/plausibility.py", "agreed < CONFIRMATIONS", "agreed < 0", "unit/driver/test_checked_device.py"),
    Fault(
        "driver/plausibility.py",
        "_PERCENT = Range(0, 100)",
        "_PERCENT = Range(0, 1e9)",
        "unit/driver/test_plausibility.py",
    ),
    Fault("driver/nvml/gpm.py", "if self._holder is ticket", "if True", "unit/driver/test_timed_lock.py"),
    Fault(
        "driver/checked_device.py",
        "self.now - since < ACCEPTED_AFTER_SECONDS",
        "True",
        "unit/driver/test_checked_device.py",
    ),
    # The host
    Fault("host/task.py", "queue.wait_ns / 1e9", "queue.wait_ns / 1e6", "unit/host/test_threads.py"),
    Fault("host/process.py", "stat.cpu_ticks / CLOCK_TICKS", "stat.cpu_ticks", "unit/host/test_process.py"),
    Fault("host/network_ports.py", "and name not in _HARMLESS", "", "unit/host/test_network_ports.py"),
    Fault("web/tls.py", 'made.set_ciphers(":".join(tls.ciphers or _DEFAULT))', "pass", "unit/web/test_tls_context.py"),
    Fault("web/auth.py", "self._users.get(name, self._decoy)", 'self._users.get(name, "")', "unit/web/test_auth.py"),
    Fault("tools/report/summaries/worker.py", "last - _SCAN_OVERLAP", "last", "unit/summaries/test_rounds.py"),
    # Faults that stay
    Fault(
        "faults/latch.py",
        "if known.reset_observations + 1 < _RESET_CONFIRMATIONS",
        "if False",
        "unit/faults/test_latch.py",
    ),
    Fault("faults/latch.py", "now - since < RETURN_CONFIRM_SECONDS", "now - since < 0", "unit/faults/test_lost_gpu.py"),
    Fault("faults/latch.py", "and time > known.last_reset ", "", "unit/faults/test_acknowledgement.py"),
    # The accounting
    Fault(
        "accounting/tracker.py",
        "if now - allocation.end > _MEMORY_SECONDS:",
        "if now < 0:",
        "unit/accounting/test_tracker.py",
    ),
    Fault(
        "accounting/tracker.py",
        "entry.hours = {key: each for key, each in entry.hours.items() if key.hour >= current}",
        "entry.hours = dict(entry.hours) if current else {}",
        "unit/accounting/test_tracker.py",
    ),
    Fault(
        "accounting/tracker.py",
        "sums.add_part(amount, part)",
        "sums.add_part(amount, 1.0 if part > 0.5 else 0.0)",
        "unit/accounting/test_tracker.py",
    ),
    Fault(
        "accounting/tracker.py",
        "max(until, min(end, (hour + 1) * HOUR_SECONDS))",
        "max(until, end)",
        "unit/accounting/test_tracker.py",
    ),
    Fault(
        "accounting/tracker.py",
        "self._end_allocation(known, known.until if set_back else min(known.until, start or known.until))",
        "self._end_allocation(known, known.until)",
        "unit/accounting/test_tracker.py",
    ),
    Fault(
        "accounting/counters.py",
        "            self.merged.clear()",
        "            pass",
        "unit/accounting/test_counters.py",
    ),
    # Progress
    Fault(
        "progress/progress.py",
        "return max(0.0, value - before)",
        "return value",
        "unit/progress/test_progress_reader.py",
    ),
    Fault(
        "progress/reporters.py",
        "if bucket.left < 1.0",
        "if bucket.left < -1e9",
        "unit/progress/test_hostile_clients.py",
    ),
    Fault(
        "progress/reader.py",
        "self._paths = {process: paths for process, paths in self._paths.items() if process in left}",
        "self._paths = dict(self._paths)",
        "unit/progress/test_progress_reader.py",
    ),
    # Pages
    Fault("exposition/page.py", """.replace('"', r"\\"")""", "", "contract/test_exposition.py"),
    Fault("exposition/page.py", " or text.source is not block.source", "", "contract/test_exposition.py"),
    Fault(
        "exposition/page.py",
        "before is None or before.columns.labels != columns.labels",
        "before is None",
        "unit/exposition/test_page.py",
    ),
    Fault(
        "exposition/page.py",
        "elif before.columns.values == columns.values:",
        "elif before:",
        "unit/exposition/test_page.py",
    ),
    Fault("web/auth.py", " and name in self._users\n", "\n", "unit/web/test_auth.py"),
    Fault("web/auth.py", "if not self._guess(peer).take()", "if False", "unit/web/test_auth.py"),
    # Commands
    Fault("faults/evaluate.py", "facts.time - UnixTime(sampled) > limits.stale", "False", "unit/check/test_verdict.py"),
    Fault("faults/findings.py", "if ago <= _SXID_SECONDS:", "if True:", "unit/check/test_rules.py"),
    Fault(
        "faults/levels.py",
        "value is not None and value < best",
        "value is not None and value < 0",
        "unit/faults/test_best_ever.py",
    ),
    Fault("daemon/serve.py", "self._since.pop(what, None)", "pass", "unit/cli/test_restart.py"),
    Fault("daemon/serve.py", "self._silent() <= self._timeout_seconds", "True", "unit/cli/test_systemd.py"),
    Fault(
        "tools/report/summaries/store.py", "AND due <= ? ORDER", "AND due >= ? ORDER", "unit/summaries/test_worker.py"
    ),
    # Whoever tries to break in: the network
    Fault("web/connection.py", "self._until(self._began + HEAD_SECONDS)", "pass", "unit/web/test_hostile_network.py"),
    Fault(
        "web/connection.py",
        "self._until(self._loop.time() + (IDLE_SECONDS if self._idle else HEAD_SECONDS))",
        "self._until(self._loop.time() + IDLE_SECONDS)",
        "unit/web/test_hostile_network.py",
    ),
    Fault(
        "web/connection.py",
        '[*response.headers, ("Date", time.strftime(',
        '[*response.headers, ("Server", "x"), ("Date", time.strftime(',
        "unit/web/test_hostile_network.py",
    ),
    Fault("web/server.py", "socket.TCP_NODELAY, 1", "socket.TCP_NODELAY, 0", "unit/web/test_connection.py"),
    Fault(
        "web/server.py",
        "max(silent, key=lambda peer: len(silent[peer]))",
        "min(silent)",
        "unit/web/test_admission.py",
    ),
    Fault("web/settings.py", "and self._file_stamps() != self._seen", "and False", "unit/web/test_settings.py"),
    Fault("web/tls.py", "if oldest > newest", "if False", "unit/web/test_settings.py"),
    Fault("web/settings.py", "if not (text.isascii() and text.isprintable())", "if False", "unit/web/test_settings.py"),
    Fault("core/site_file.py", "if name in seen", "if False", "unit/host/test_site_yaml.py"),
    Fault("core/fetch.py", "if len(content) > limit", "if False", "unit/report/test_fetch.py"),
    Fault("tools/check/reading.py", "ended.si_status in _CRASHES", "True", "unit/check/test_child.py"),
    Fault("progress/socket_source.py", "if found == own:", "if found:", "unit/progress/test_socket_of_its_own.py"),
    Fault("daemon/serve.py", "(signal.SIGHUP, reload)", "(signal.SIGHUP, stopping)", "unit/cli/test_signals.py"),
    # ... users of the node
    Fault("attribution/cgroup.py", "_USERS_OWN.search(path)", "None", "unit/attribution/test_cgroup_trust.py"),
    Fault(
        "attribution/slurm/scontrol.py",
        "found is not None and found.id == job",
        "found is not None",
        "unit/attribution/test_show_job.py",
    ),
    Fault(
        "attribution/slurm/job.py",
        "file.read(_MAX_BYTES)",
        "file.read()",
        "unit/attribution/test_slurm_environ.py",
    ),
    Fault("host/text.py", "if not stat.S_ISREG(status.st_mode) or (owners", "if (owners", "unit/host/test_text.py"),
    Fault("host/text.py", "os.O_NOFOLLOW | ", "", "unit/attribution/test_slurm_mapping.py"),
    Fault("host/command.py", "_mask_after(before, argument) or ", "", "unit/host/test_command.py"),
    Fault("progress/folder_source.py", "[-_FILES_PER_USER:]", "", "unit/progress/test_progress_folder.py"),
    Fault("progress/folder_source.py", "known.user != user or ", "", "unit/progress/test_progress_folder.py"),
    # ... and what fails by itself
    Fault("core/threads.py", "if self._stopped.wait(", "if True or (", "unit/threads/test_every_thread.py"),
    Fault("core/threads.py", "(RuntimeError, OSError, MemoryError)", "MemoryError", "unit/threads/test_runner.py"),
    Fault(
        "core/lookup.py",
        "known.value is None and now - known.at",
        "now < known.at and now - known.at",
        "unit/threads/test_lookup.py",
    ),
    Fault("web/status.py", ', STAGES["periodic"].left_out', "", "unit/web/test_status.py"),
    # Panels whose number is wrong
    Fault("dashboards/waste.py", "/ ({allocated} > 0)", "/ ({FLEET.of()} > 0)", "panels/test_panels.py"),
    Fault("dashboards/parts/query.py", "JOULES_PER_KWH = 3.6e6", "JOULES_PER_KWH = 1e6", "panels/test_panels.py"),
    Fault(
        "dashboards/waste.py",
        "now(FLEET.or_none('state=\"free\"'))",
        "now(FLEET.or_none('state=\"allocated_idle\"'))",
        "panels/test_panels.py",
    ),
    Fault(
        "dashboards/waste.py",
        "now(price.total(price.of_teams(CLUSTER)))",
        'now(price.total(price.of_teams(CLUSTER, "team:gpu_owner_busy_cost")))',
        "panels/test_panels.py",
    ),
    Fault("dashboards/fleet.py", " + ({_UNREACHABLE} or vector(0)) or {_UNREACHABLE}", "", "panels/test_panels.py"),
    Fault("dashboards/throughput.py", "only, mfu.NOW)", "only)", "panels/test_panels.py"),
    Fault("dashboards/parts/query.py", "suffix:GPU h", "suffix: GPU h", "panels/test_printed_panels.py"),
    Fault(
        "dashboards/parts/once.py",
        "_OF_EVALUATED = dict.fromkeys(_RECORDED, REPLICAS) | ",
        "_OF_EVALUATED = ",
        "panels/test_counted_once.py",
    ),
    Fault("tools/report/model.py", "total / gpu_hours if", "total / seconds if", "panels/test_report.py"),
    Fault(
        "dashboards/waste.py",
        "now(OWNED.or_none(among(POSSIBLY_LOST)))",
        "now(FLEET.or_none(among(POSSIBLY_LOST)))",
        "panels/test_panels.py",
    ),
    Fault(
        "dashboards/job.py",
        '"max", _rate_of("gpu_workload_pressure',
        '"sum", _rate_of("gpu_workload_pressure',
        "panels/test_panels.py",
    ),
    Fault(
        "dashboards/health.py",
        'type="uncorrected"',
        'type="corrected"',
        "panels/test_panels.py",
    ),
    Fault(
        "dashboards/parts/workload_resources.py",
        "max by (cluster, workload, resource)",
        "sum by (cluster, workload, resource)",
        "panels/test_panels.py",
    ),
    Fault("dashboards/capacity.py", '("95 %", 0.95)', '("95 %", 0.5)', "panels/test_panels.py"),
    Fault("dashboards/capacity.py", "offset 1w", "offset 1d", "panels/test_panels.py"),
    Fault("dashboards/job.py", "max(workload:gpu_straggling", "avg(workload:gpu_straggling", "panels/test_panels.py"),
    Fault(
        "dashboards/capacity.py",
        "({_SIZES})",
        "({_mean('cluster_size:gpu_pending_jobs:count')})",
        "panels/test_panels.py",
    ),
    Fault(
        "dashboards/fleet.py", "quantile(0.9, {utilization})", "quantile(0.5, {utilization})", "panels/test_panels.py"
    ),
    Fault("dashboards/waste.py", "{struck} * 3600 > 60", "{struck}", "panels/test_panels.py"),
    Fault("dashboards/parts/price.py", " unless on () gpu:price_per_hour)", ")", "panels/test_panels.py"),
    Fault(
        "dashboards/parts/query.py",
        "({of(counter)} - {of(f'{counter} offset {RANGE}')}) >= 0 or ",
        "",
        "panels/test_panels.py",
    ),
    Fault(
        "dashboards/parts/workload.py",
        "max(min by (cluster, workload) (gpu_workload_idle",
        "sum(min by (cluster, workload) (gpu_workload_idle",
        "panels/test_panels.py",
    ),
    Fault(
        "dashboards/job.py",
        '"sum", _level_of("gpu_workload_resident',
        '"max", _level_of("gpu_workload_resident',
        "panels/test_panels.py",
    ),
    Fault(
        "dashboards/parts/query.py",
        " and on (cluster, instance, {gpu}) (gpu_up{{{scope}}} == 1)",
        "",
        "panels/test_panels.py",
    ),
    Fault("dashboards/parts/health_links.py", " or on {gpu} {lost}", "", "panels/test_panels.py"),
    Fault("dashboards/health.py", 'reason="hw_power_brake"', 'reason="hw_slowdown"', "panels/test_panels.py"),
    Fault("dashboards/parts/exporter_cost.py", "sum by (reason)", "max by (reason)", "panels/test_panels.py"),
    Fault("dashboards/exporter.py", "instance, gpu, state)", "instance, state)", "panels/test_panels.py"),
    Fault("dashboards/parts/block.py", "mappings=tuple(style.ANSWERS)", "mappings=()", "panels/test_panels.py"),
    # Prices of pools
    Fault(
        "tools/report/promql.py",
        """(f"{WHOLE}, pool", 'profile=""')""",
        """(WHOLE, 'profile="",pool=""')""",
        "panels/test_panels.py",
    ),
    Fault(
        "accounting/tracker.py",
        "return cycle.pool if cycle.pool is not None else known.kind.pool if known else",
        "return cycle.pool or",
        "contract/rules/test_pool_prices.py",
    ),
    Fault(
        "accounting/tracker.py",
        "return known.kind.pool == kind.pool",
        "return True",
        "contract/rules/test_pool_prices.py",
    ),
    Fault("faults/expected.py", '"," not in found[1] and ', "", "unit/faults/test_slurm_node.py"),
)
