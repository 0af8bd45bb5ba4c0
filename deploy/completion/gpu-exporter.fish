# fish completion of gpu-exporter; made by `gpu-exporter completion fish`
complete -c gpu-exporter -f
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -a serve -d 'serve the metrics (the default)'
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -a once -d 'print the metrics once and exit'
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -a capture -d 'record the driver s answers to a file'
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -a check -d 'verdict on this node s GPUs'
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -a report -d 'efficiency of a job, a pod or a period, from Prometheus'
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -a completion -d 'print the completion of a shell'
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'web.listen-address' -d 'Address to serve on.' -x
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'web.telemetry-path' -d 'Path of the metrics.' -r -F
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'web.config.file' -d 'TLS and basic auth, in the format of Prometheus exporters.' -r -F
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'web.max-threads' -d 'Threads that answer requests.' -x
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'path.procfs' -d 'Mount of the host s procfs.' -r -F
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'path.sysfs' -d 'Mount of the host s sysfs.' -r -F
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'path.cgroupfs' -d 'Mount of the host s cgroups.' -r -F
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'path.kmsg' -d 'Kernel log to read XIDs from, where readable.' -r -F
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'sample.interval' -d 'Time between two passes over the GPUs.' -x
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'sample.deadline' -d 'Time one pass waits for the GPUs to answer.' -x
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'sample.stale' -d 'Age at which a gauge vanishes.' -x
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'process.limit' -d 'Processes shown per GPU; the rest are summed as pid  other .' -x
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'process.command-line' -d 'Show arguments in  command , secrets masked; else the short name.'
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'attribution.kubernetes' -d 'Pods  auto is on where the kubelet s socket is.' -x
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'attribution.kubernetes.pod-resources-socket' -d 'The kubelet s pod-resources socket.' -r -F
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'attribution.kubernetes.api' -d 'Ask the API server for this node s pods (names of pods with no allocation, labels).'
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'attribution.kubernetes.pod-labels' -d 'Pod labels to show on gpu_workload_info, as label_NAME.' -x
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'attribution.kubernetes.node-name' -d 'This node s name in Kubernetes (default   NODE_NAME).' -x
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'attribution.slurm' -d 'Slurm jobs  auto is on where slurmd s files or job cgroups are.' -x
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'attribution.slurm.mapping-dir' -d 'Directory of the prolog s per-GPU job files.' -r -F
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'attribution.slurm.scontrol' -d 'The scontrol to ask about a new job id.' -r -F
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'attribution.slurm.gres-conf' -d 'GRES index to device file.' -r -F
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'attribution.retention' -d 'Time an ended workload stays on the metrics.' -x
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'progress.dir' -d 'Directory where programs leave their progress  docs/progress.md.' -r -F
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'simulate' -d 'Simulated GPUs in place of the driver, e.g. 8xH200 training.' -x
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'driver.capture' -d 'Recorded answers in place of the driver.' -r -F
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'log.level' -d 'What to log.' -x
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'log.format' -d 'How to log.' -x
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'collector.info' -d 'Model, bus id, serial, firmware and modes; 9 driver calls every 30 s.'
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'collector.memory' -d 'Device memory and BAR1; 2 driver calls every 5 s.'
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'collector.utilization' -d 'Utilization of GPU and memory, and busy seconds from the driver s sample buffers; 3 driver calls a pass.'
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'collector.engines' -d 'Utilization of encoder, decoder, JPEG and optical-flow engines; 4 driver calls every 5 s.'
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'collector.gpm' -d 'Activity of SMs, tensor cores, memory and pipes, bytes over PCIe and NVLink; up to 3 driver calls a pass.'
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'collector.power' -d 'Power, energy and power limits; 2 driver calls a pass, 3 more every 30 s.'
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'collector.clocks' -d 'Clocks and performance state; 5 driver calls every 5 s, 4 more every 30 s.'
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'collector.temperature' -d 'Temperatures, thresholds and fans; 3 driver calls every 5 s and 1 per fan, 6 more every 30 s.'
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'collector.throttle' -d 'Reasons for lowered clocks; 2 driver calls a pass, and up to 6 more on drivers without time fields.'
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'collector.pcie' -d 'PCIe generation, width and errors; 2 driver calls every 5 s, 3 more every 30 s.'
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'collector.nvlink' -d 'NVLink states, speed and errors; 2 driver calls every 30 s, and 1 per link on drivers before R525.'
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'collector.ecc' -d 'ECC errors; 4 driver calls every 30 s.'
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'collector.retired_pages' -d 'Retired memory pages (before Ampere); 1 driver call every 30 s.'
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'collector.remapped_rows' -d 'Remapped memory rows (Ampere and newer); 2 driver calls every 30 s.'
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'collector.health' -d 'The driver s advice on recovery; 1 driver call every 5 s.'
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'collector.fabric' -d 'State of the NVLink fabric; 1 driver call every 30 s.'
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'collector.processes' -d 'Processes with their memory and utilization; 1 driver call a pass, 3 more every 5 s.'
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'collector.mig' -d 'MIG instances; per instance 1 driver call a pass (with GPM), 1 every 5 s and 1 every 30 s.'
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'collector.xid' -d 'XIDs from the driver s events and the kernel log.'
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'ledger.gap-intervals' -d 'A pass longer than this many sample intervals is unobserved.' -x
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'ledger.active' -d 'Busy share of a pass above which a GPU did something  resets the idle clock.' -x
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'ledger.wait-cover' -d 'Part of the waiting time that pressure, or a busier peer, must cover to be its cause.' -x
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'ledger.pressure-floor' -d 'Pressure below this share of the pass explains nothing.' -x
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'ledger.blocked' -d 'Share of an owner s GPU processes in D state that makes waiting a wait for storage.' -x
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'ledger.cpu-of-limit' -d 'CPU use over the owner s limit above which it waits for CPU.' -x
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'ledger.hot-thread' -d 'CPU one thread used, or stood ready to use, above which waiting is a wait for CPU.' -x
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'ledger.sm-low' -d 'SM activity, of the busy time, below which the SMs are mostly empty.' -x
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'ledger.link-high' -d 'NVLink or PCIe traffic, of what the link can carry, that is high.' -x
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'ledger.dram-high' -d 'DRAM activity, of the busy time, that is high.' -x
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'ledger.tensor-low' -d 'Tensor activity, of the busy time, that is low.' -x
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'ledger.power-low' -d 'Power over its limit below which a busy GPU without GPM is hardly loaded.' -x
complete -c gpu-exporter -n 'not __fish_seen_subcommand_from serve once capture check report completion' -l 'ledger.memory-low' -d 'Memory activity, of the busy time, that is low on a GPU without GPM.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'web.listen-address' -d 'Address to serve on.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'web.telemetry-path' -d 'Path of the metrics.' -r -F
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'web.config.file' -d 'TLS and basic auth, in the format of Prometheus exporters.' -r -F
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'web.max-threads' -d 'Threads that answer requests.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'path.procfs' -d 'Mount of the host s procfs.' -r -F
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'path.sysfs' -d 'Mount of the host s sysfs.' -r -F
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'path.cgroupfs' -d 'Mount of the host s cgroups.' -r -F
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'path.kmsg' -d 'Kernel log to read XIDs from, where readable.' -r -F
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'sample.interval' -d 'Time between two passes over the GPUs.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'sample.deadline' -d 'Time one pass waits for the GPUs to answer.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'sample.stale' -d 'Age at which a gauge vanishes.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'process.limit' -d 'Processes shown per GPU; the rest are summed as pid  other .' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'process.command-line' -d 'Show arguments in  command , secrets masked; else the short name.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'attribution.kubernetes' -d 'Pods  auto is on where the kubelet s socket is.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'attribution.kubernetes.pod-resources-socket' -d 'The kubelet s pod-resources socket.' -r -F
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'attribution.kubernetes.api' -d 'Ask the API server for this node s pods (names of pods with no allocation, labels).'
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'attribution.kubernetes.pod-labels' -d 'Pod labels to show on gpu_workload_info, as label_NAME.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'attribution.kubernetes.node-name' -d 'This node s name in Kubernetes (default   NODE_NAME).' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'attribution.slurm' -d 'Slurm jobs  auto is on where slurmd s files or job cgroups are.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'attribution.slurm.mapping-dir' -d 'Directory of the prolog s per-GPU job files.' -r -F
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'attribution.slurm.scontrol' -d 'The scontrol to ask about a new job id.' -r -F
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'attribution.slurm.gres-conf' -d 'GRES index to device file.' -r -F
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'attribution.retention' -d 'Time an ended workload stays on the metrics.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'progress.dir' -d 'Directory where programs leave their progress  docs/progress.md.' -r -F
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'simulate' -d 'Simulated GPUs in place of the driver, e.g. 8xH200 training.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'driver.capture' -d 'Recorded answers in place of the driver.' -r -F
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'log.level' -d 'What to log.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'log.format' -d 'How to log.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'collector.info' -d 'Model, bus id, serial, firmware and modes; 9 driver calls every 30 s.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'collector.memory' -d 'Device memory and BAR1; 2 driver calls every 5 s.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'collector.utilization' -d 'Utilization of GPU and memory, and busy seconds from the driver s sample buffers; 3 driver calls a pass.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'collector.engines' -d 'Utilization of encoder, decoder, JPEG and optical-flow engines; 4 driver calls every 5 s.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'collector.gpm' -d 'Activity of SMs, tensor cores, memory and pipes, bytes over PCIe and NVLink; up to 3 driver calls a pass.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'collector.power' -d 'Power, energy and power limits; 2 driver calls a pass, 3 more every 30 s.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'collector.clocks' -d 'Clocks and performance state; 5 driver calls every 5 s, 4 more every 30 s.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'collector.temperature' -d 'Temperatures, thresholds and fans; 3 driver calls every 5 s and 1 per fan, 6 more every 30 s.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'collector.throttle' -d 'Reasons for lowered clocks; 2 driver calls a pass, and up to 6 more on drivers without time fields.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'collector.pcie' -d 'PCIe generation, width and errors; 2 driver calls every 5 s, 3 more every 30 s.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'collector.nvlink' -d 'NVLink states, speed and errors; 2 driver calls every 30 s, and 1 per link on drivers before R525.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'collector.ecc' -d 'ECC errors; 4 driver calls every 30 s.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'collector.retired_pages' -d 'Retired memory pages (before Ampere); 1 driver call every 30 s.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'collector.remapped_rows' -d 'Remapped memory rows (Ampere and newer); 2 driver calls every 30 s.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'collector.health' -d 'The driver s advice on recovery; 1 driver call every 5 s.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'collector.fabric' -d 'State of the NVLink fabric; 1 driver call every 30 s.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'collector.processes' -d 'Processes with their memory and utilization; 1 driver call a pass, 3 more every 5 s.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'collector.mig' -d 'MIG instances; per instance 1 driver call a pass (with GPM), 1 every 5 s and 1 every 30 s.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'collector.xid' -d 'XIDs from the driver s events and the kernel log.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'ledger.gap-intervals' -d 'A pass longer than this many sample intervals is unobserved.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'ledger.active' -d 'Busy share of a pass above which a GPU did something  resets the idle clock.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'ledger.wait-cover' -d 'Part of the waiting time that pressure, or a busier peer, must cover to be its cause.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'ledger.pressure-floor' -d 'Pressure below this share of the pass explains nothing.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'ledger.blocked' -d 'Share of an owner s GPU processes in D state that makes waiting a wait for storage.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'ledger.cpu-of-limit' -d 'CPU use over the owner s limit above which it waits for CPU.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'ledger.hot-thread' -d 'CPU one thread used, or stood ready to use, above which waiting is a wait for CPU.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'ledger.sm-low' -d 'SM activity, of the busy time, below which the SMs are mostly empty.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'ledger.link-high' -d 'NVLink or PCIe traffic, of what the link can carry, that is high.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'ledger.dram-high' -d 'DRAM activity, of the busy time, that is high.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'ledger.tensor-low' -d 'Tensor activity, of the busy time, that is low.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'ledger.power-low' -d 'Power over its limit below which a busy GPU without GPM is hardly loaded.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from once' -l 'ledger.memory-low' -d 'Memory activity, of the busy time, that is low on a GPU without GPM.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'web.listen-address' -d 'Address to serve on.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'web.telemetry-path' -d 'Path of the metrics.' -r -F
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'web.config.file' -d 'TLS and basic auth, in the format of Prometheus exporters.' -r -F
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'web.max-threads' -d 'Threads that answer requests.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'path.procfs' -d 'Mount of the host s procfs.' -r -F
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'path.sysfs' -d 'Mount of the host s sysfs.' -r -F
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'path.cgroupfs' -d 'Mount of the host s cgroups.' -r -F
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'path.kmsg' -d 'Kernel log to read XIDs from, where readable.' -r -F
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'sample.interval' -d 'Time between two passes over the GPUs.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'sample.deadline' -d 'Time one pass waits for the GPUs to answer.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'sample.stale' -d 'Age at which a gauge vanishes.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'process.limit' -d 'Processes shown per GPU; the rest are summed as pid  other .' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'process.command-line' -d 'Show arguments in  command , secrets masked; else the short name.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'attribution.kubernetes' -d 'Pods  auto is on where the kubelet s socket is.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'attribution.kubernetes.pod-resources-socket' -d 'The kubelet s pod-resources socket.' -r -F
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'attribution.kubernetes.api' -d 'Ask the API server for this node s pods (names of pods with no allocation, labels).'
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'attribution.kubernetes.pod-labels' -d 'Pod labels to show on gpu_workload_info, as label_NAME.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'attribution.kubernetes.node-name' -d 'This node s name in Kubernetes (default   NODE_NAME).' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'attribution.slurm' -d 'Slurm jobs  auto is on where slurmd s files or job cgroups are.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'attribution.slurm.mapping-dir' -d 'Directory of the prolog s per-GPU job files.' -r -F
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'attribution.slurm.scontrol' -d 'The scontrol to ask about a new job id.' -r -F
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'attribution.slurm.gres-conf' -d 'GRES index to device file.' -r -F
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'attribution.retention' -d 'Time an ended workload stays on the metrics.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'progress.dir' -d 'Directory where programs leave their progress  docs/progress.md.' -r -F
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'simulate' -d 'Simulated GPUs in place of the driver, e.g. 8xH200 training.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'driver.capture' -d 'Recorded answers in place of the driver.' -r -F
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'log.level' -d 'What to log.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'log.format' -d 'How to log.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'collector.info' -d 'Model, bus id, serial, firmware and modes; 9 driver calls every 30 s.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'collector.memory' -d 'Device memory and BAR1; 2 driver calls every 5 s.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'collector.utilization' -d 'Utilization of GPU and memory, and busy seconds from the driver s sample buffers; 3 driver calls a pass.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'collector.engines' -d 'Utilization of encoder, decoder, JPEG and optical-flow engines; 4 driver calls every 5 s.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'collector.gpm' -d 'Activity of SMs, tensor cores, memory and pipes, bytes over PCIe and NVLink; up to 3 driver calls a pass.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'collector.power' -d 'Power, energy and power limits; 2 driver calls a pass, 3 more every 30 s.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'collector.clocks' -d 'Clocks and performance state; 5 driver calls every 5 s, 4 more every 30 s.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'collector.temperature' -d 'Temperatures, thresholds and fans; 3 driver calls every 5 s and 1 per fan, 6 more every 30 s.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'collector.throttle' -d 'Reasons for lowered clocks; 2 driver calls a pass, and up to 6 more on drivers without time fields.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'collector.pcie' -d 'PCIe generation, width and errors; 2 driver calls every 5 s, 3 more every 30 s.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'collector.nvlink' -d 'NVLink states, speed and errors; 2 driver calls every 30 s, and 1 per link on drivers before R525.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'collector.ecc' -d 'ECC errors; 4 driver calls every 30 s.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'collector.retired_pages' -d 'Retired memory pages (before Ampere); 1 driver call every 30 s.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'collector.remapped_rows' -d 'Remapped memory rows (Ampere and newer); 2 driver calls every 30 s.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'collector.health' -d 'The driver s advice on recovery; 1 driver call every 5 s.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'collector.fabric' -d 'State of the NVLink fabric; 1 driver call every 30 s.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'collector.processes' -d 'Processes with their memory and utilization; 1 driver call a pass, 3 more every 5 s.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'collector.mig' -d 'MIG instances; per instance 1 driver call a pass (with GPM), 1 every 5 s and 1 every 30 s.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'collector.xid' -d 'XIDs from the driver s events and the kernel log.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'ledger.gap-intervals' -d 'A pass longer than this many sample intervals is unobserved.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'ledger.active' -d 'Busy share of a pass above which a GPU did something  resets the idle clock.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'ledger.wait-cover' -d 'Part of the waiting time that pressure, or a busier peer, must cover to be its cause.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'ledger.pressure-floor' -d 'Pressure below this share of the pass explains nothing.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'ledger.blocked' -d 'Share of an owner s GPU processes in D state that makes waiting a wait for storage.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'ledger.cpu-of-limit' -d 'CPU use over the owner s limit above which it waits for CPU.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'ledger.hot-thread' -d 'CPU one thread used, or stood ready to use, above which waiting is a wait for CPU.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'ledger.sm-low' -d 'SM activity, of the busy time, below which the SMs are mostly empty.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'ledger.link-high' -d 'NVLink or PCIe traffic, of what the link can carry, that is high.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'ledger.dram-high' -d 'DRAM activity, of the busy time, that is high.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'ledger.tensor-low' -d 'Tensor activity, of the busy time, that is low.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'ledger.power-low' -d 'Power over its limit below which a busy GPU without GPM is hardly loaded.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from capture' -l 'ledger.memory-low' -d 'Memory activity, of the busy time, that is low on a GPU without GPM.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'format' -d 'text, json, nagios (one line), npd (one line, node-problem-detector s exit codes).' -x -a 'text json nagios npd'
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'check.url' -d 'Judge what this exporter serves, e.g. http //127.0.0.1 9836/metrics, in place of the driver.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'check.gpus' -d 'GPUs this node must have; 0  as many as its PCI bus shows.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'check.deadline' -d 'Time the GPUs have to answer.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'check.margin' -d 'Degraded with fewer degrees left before the GPU slows itself down.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'check.hot' -d 'Degraded when a fan stands still above this temperature.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'check.xid-window' -d 'Time an XID counts for.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'check.ignore' -d 'Rules to leave out  driver, driver_hangs, gpu_missing, gpu_down, recovery_gpu_reset, recovery_node_reboot, recovery_system_reboot, recovery_bus_reset, recovery_drain_and_reset, recovery_drain_p2p, recovery_recover_imex, xid_reset, xid_restart, xid_workflow, xid_support, ecc_uncorrectable, ecc_sram, row_remap_failed, row_remap_pending, page_pending, fabric_state, fabric_route, fabric_configuration, fabric_bandwidth, fabric_recovery, fabric_timeout, nvlink_down, pcie_width, power_brake, hw_thermal, temperature, fan, reading.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'check.fail-on' -d 'From which verdict on --drain drains, and npd reports the condition.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'drain' -d 'Drain this Slurm node, with the reason, when it fails; resume it when it is well again and was drained so.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'drain.node' -d 'Name of this node in Slurm (default   SLURMD_NODENAME, else the short host name).' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'web.listen-address' -d 'Address to serve on.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'web.telemetry-path' -d 'Path of the metrics.' -r -F
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'web.config.file' -d 'TLS and basic auth, in the format of Prometheus exporters.' -r -F
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'web.max-threads' -d 'Threads that answer requests.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'path.procfs' -d 'Mount of the host s procfs.' -r -F
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'path.sysfs' -d 'Mount of the host s sysfs.' -r -F
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'path.cgroupfs' -d 'Mount of the host s cgroups.' -r -F
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'path.kmsg' -d 'Kernel log to read XIDs from, where readable.' -r -F
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'sample.interval' -d 'Time between two passes over the GPUs.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'sample.deadline' -d 'Time one pass waits for the GPUs to answer.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'sample.stale' -d 'Age at which a gauge vanishes.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'process.limit' -d 'Processes shown per GPU; the rest are summed as pid  other .' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'process.command-line' -d 'Show arguments in  command , secrets masked; else the short name.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'attribution.kubernetes' -d 'Pods  auto is on where the kubelet s socket is.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'attribution.kubernetes.pod-resources-socket' -d 'The kubelet s pod-resources socket.' -r -F
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'attribution.kubernetes.api' -d 'Ask the API server for this node s pods (names of pods with no allocation, labels).'
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'attribution.kubernetes.pod-labels' -d 'Pod labels to show on gpu_workload_info, as label_NAME.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'attribution.kubernetes.node-name' -d 'This node s name in Kubernetes (default   NODE_NAME).' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'attribution.slurm' -d 'Slurm jobs  auto is on where slurmd s files or job cgroups are.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'attribution.slurm.mapping-dir' -d 'Directory of the prolog s per-GPU job files.' -r -F
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'attribution.slurm.scontrol' -d 'The scontrol to ask about a new job id.' -r -F
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'attribution.slurm.gres-conf' -d 'GRES index to device file.' -r -F
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'attribution.retention' -d 'Time an ended workload stays on the metrics.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'progress.dir' -d 'Directory where programs leave their progress  docs/progress.md.' -r -F
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'simulate' -d 'Simulated GPUs in place of the driver, e.g. 8xH200 training.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'driver.capture' -d 'Recorded answers in place of the driver.' -r -F
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'log.level' -d 'What to log.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'log.format' -d 'How to log.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'collector.info' -d 'Model, bus id, serial, firmware and modes; 9 driver calls every 30 s.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'collector.memory' -d 'Device memory and BAR1; 2 driver calls every 5 s.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'collector.utilization' -d 'Utilization of GPU and memory, and busy seconds from the driver s sample buffers; 3 driver calls a pass.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'collector.engines' -d 'Utilization of encoder, decoder, JPEG and optical-flow engines; 4 driver calls every 5 s.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'collector.gpm' -d 'Activity of SMs, tensor cores, memory and pipes, bytes over PCIe and NVLink; up to 3 driver calls a pass.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'collector.power' -d 'Power, energy and power limits; 2 driver calls a pass, 3 more every 30 s.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'collector.clocks' -d 'Clocks and performance state; 5 driver calls every 5 s, 4 more every 30 s.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'collector.temperature' -d 'Temperatures, thresholds and fans; 3 driver calls every 5 s and 1 per fan, 6 more every 30 s.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'collector.throttle' -d 'Reasons for lowered clocks; 2 driver calls a pass, and up to 6 more on drivers without time fields.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'collector.pcie' -d 'PCIe generation, width and errors; 2 driver calls every 5 s, 3 more every 30 s.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'collector.nvlink' -d 'NVLink states, speed and errors; 2 driver calls every 30 s, and 1 per link on drivers before R525.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'collector.ecc' -d 'ECC errors; 4 driver calls every 30 s.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'collector.retired_pages' -d 'Retired memory pages (before Ampere); 1 driver call every 30 s.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'collector.remapped_rows' -d 'Remapped memory rows (Ampere and newer); 2 driver calls every 30 s.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'collector.health' -d 'The driver s advice on recovery; 1 driver call every 5 s.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'collector.fabric' -d 'State of the NVLink fabric; 1 driver call every 30 s.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'collector.processes' -d 'Processes with their memory and utilization; 1 driver call a pass, 3 more every 5 s.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'collector.mig' -d 'MIG instances; per instance 1 driver call a pass (with GPM), 1 every 5 s and 1 every 30 s.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'collector.xid' -d 'XIDs from the driver s events and the kernel log.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'ledger.gap-intervals' -d 'A pass longer than this many sample intervals is unobserved.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'ledger.active' -d 'Busy share of a pass above which a GPU did something  resets the idle clock.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'ledger.wait-cover' -d 'Part of the waiting time that pressure, or a busier peer, must cover to be its cause.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'ledger.pressure-floor' -d 'Pressure below this share of the pass explains nothing.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'ledger.blocked' -d 'Share of an owner s GPU processes in D state that makes waiting a wait for storage.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'ledger.cpu-of-limit' -d 'CPU use over the owner s limit above which it waits for CPU.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'ledger.hot-thread' -d 'CPU one thread used, or stood ready to use, above which waiting is a wait for CPU.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'ledger.sm-low' -d 'SM activity, of the busy time, below which the SMs are mostly empty.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'ledger.link-high' -d 'NVLink or PCIe traffic, of what the link can carry, that is high.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'ledger.dram-high' -d 'DRAM activity, of the busy time, that is high.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'ledger.tensor-low' -d 'Tensor activity, of the busy time, that is low.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'ledger.power-low' -d 'Power over its limit below which a busy GPU without GPM is hardly loaded.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from check' -l 'ledger.memory-low' -d 'Memory activity, of the busy time, that is low on a GPU without GPM.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from report' -l 'pod' -d 'Report on this pod.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from report' -l 'workload' -d 'Report on the workload with this id, e.g. docker web.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from report' -l 'user' -d 'Digest of this user s GPU hours.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from report' -l 'account' -d 'Digest of this Slurm account s GPU hours.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from report' -l 'namespace' -d 'Digest of this namespace s GPU hours.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from report' -l 'all' -d 'Digest of everybody s GPU hours, ranked by what was wasted.'
complete -c gpu-exporter -n '__fish_seen_subcommand_from report' -l 'since' -d 'How far to look back.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from report' -l 'cluster' -d 'Only series with this  cluster  label.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from report' -l 'format' -d 'text, markdown, json, html, or short (one line, for AdminComment).' -x -a 'text markdown json html short'
complete -c gpu-exporter -n '__fish_seen_subcommand_from report' -l 'price' -d 'Price of a GPU hour by model, e.g. H200=2.5,A100=1.2; the rest as on the dashboards.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from report' -l 'currency' -d 'What prices are in.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from report' -l 'prometheus.url' -d 'Prometheus, or what answers its query API (Thanos, Mimir, VictoriaMetrics).' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from report' -l 'prometheus.timeout' -d 'Time one query may take.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from report' -l 'prometheus.bearer-token-file' -d 'File with a bearer token.' -r -F
complete -c gpu-exporter -n '__fish_seen_subcommand_from report' -l 'prometheus.username' -d 'User name for basic auth.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from report' -l 'prometheus.password-file' -d 'File with its password.' -r -F
complete -c gpu-exporter -n '__fish_seen_subcommand_from report' -l 'prometheus.ca-file' -d 'Certificates to trust in place of the system s.' -r -F
complete -c gpu-exporter -n '__fish_seen_subcommand_from report' -l 'prometheus.headers' -d 'Headers to send, with commas between, e.g. X-Scope-OrgID=team.' -x
complete -c gpu-exporter -n '__fish_seen_subcommand_from completion' -a 'bash zsh fish'
