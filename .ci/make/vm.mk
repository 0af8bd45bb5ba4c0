# A Debian machine under emulation: a real init, kernel, cgroup v2, reboot.
.PHONY: setup-e2e-vm
setup-e2e-vm: venv setup-nvml setup-slurmkit ## Fetch QEMU and build the machine's image in .cache/vm (root, three minutes)
	@command -v qemu-system-x86_64 debootstrap mke2fs >/dev/null || { echo "QEMU or debootstrap is missing: installing them"; apt-get update -q && apt-get install -y -q --no-install-recommends qemu-system-x86 debootstrap e2fsprogs; }
	@$(BIN)/python -m tests.vm.image

VM ?= unit slurm faults package
.PHONY: e2e-vm
e2e-vm: setup-e2e-vm ## The package and the Slurm kit on a Debian machine under emulation (root, half an hour; VM='unit slurm')
	$(BIN)/pytest -p no:xdist $(VM:%=tests/vm/%.py)
