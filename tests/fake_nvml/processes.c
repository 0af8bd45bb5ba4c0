/* Which processes use a device, and how much of it. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "fake.h"

/* One `gpuN.process.K = PID TYPE MEMORY [SM MEM ENC DEC [INSTANCE]]`. */
typedef struct {
    unsigned pid;
    char type;
    long long memory; /* bytes, -1: the driver does not know */
    unsigned sm, mem, encoder, decoder;
    int instance;
} Process;

/* What early R535 drivers wrote in place of nvmlProcessInfo_t. */
typedef struct {
    unsigned pid;
    unsigned long long memory;
    unsigned gpu_instance, compute_instance;
    unsigned long long protected_memory;
} WideProcess;

static int processes(Device device, char type, Process *out)
{
    int found = 0;
    Device gpu = {device.gpu, NO_INSTANCE};
    for (int k = 0; k < MAX_PROCESSES; k++) {
        Process p = {.instance = NO_INSTANCE};
        const char *text = device_text(gpu, "process.%d", k);
        if (!text || sscanf(text, "%u %c %lld %u %u %u %u %d", &p.pid, &p.type, &p.memory, &p.sm, &p.mem, &p.encoder,
                            &p.decoder, &p.instance) < 3)
            continue;
        if ((type && p.type != type) || (device.instance != NO_INSTANCE && p.instance != device.instance))
            continue;
        out[found++] = p;
    }
    return found;
}

static void write_process(Device device, const Process *p, size_t size, void *out)
{
    Device instance = {device.gpu, p->instance};
    bool mig = p->instance != NO_INSTANCE;
    WideProcess all = {
        .pid = p->pid,
        .memory = (unsigned long long)p->memory,
        .gpu_instance = mig ? (unsigned)device_number(instance, 0, "gpu_instance") : 0xffffffffu,
        .compute_instance = mig ? (unsigned)device_number(instance, 0, "compute_instance") : 0xffffffffu,
    };
    memcpy(out, &all, size);
}

static nvmlReturn_t list(const char *function, nvmlDevice_t device, char type, unsigned *count, size_t size, void *out)
{
    Device self;
    int code = enter(function, device, &self);
    if (code != NVML_SUCCESS)
        return leave(code);
    Process found[MAX_PROCESSES];
    unsigned number = (unsigned)processes(self, type, found), room = *count;
    *count = number;
    if (number && (!out || room < number))
        return leave(NVML_ERROR_INSUFFICIENT_SIZE);
    if (size == sizeof(nvmlProcessInfo_t) && scenario_number("wide_processes", 0) != 0)
        size = sizeof(WideProcess);
    for (unsigned i = 0; i < number; i++)
        write_process(self, &found[i], size, (char *)out + i * size);
    return leave(NVML_SUCCESS);
}

#define LIST(function, type, Struct)                                                    \
    nvmlReturn_t function(nvmlDevice_t device, unsigned *count, Struct *out)            \
    {                                                                                   \
        return list(__func__, device, type, count, sizeof *out, out);                   \
    }

LIST(nvmlDeviceGetComputeRunningProcesses_v3, 'C', nvmlProcessInfo_t)
LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, 'G', nvmlProcessInfo_t)
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, 'M', nvmlProcessInfo_t)
LIST(nvmlDeviceGetComputeRunningProcesses_v2, 'C', nvmlProcessInfo_v2_t)
LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, 'G', nvmlProcessInfo_v2_t)
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v2, 'M', nvmlProcessInfo_v2_t)
LIST(nvmlDeviceGetComputeRunningProcesses, 'C', nvmlProcessInfo_v1_t)
LIST(nvmlDeviceGetGraphicsRunningProcesses, 'G', nvmlProcessInfo_v1_t)
LIST(nvmlDeviceGetMPSComputeRunningProcesses, 'M', nvmlProcessInfo_v1_t)

/* With `process_garbage = 1`, the stale and the absurd sample that real drivers mix in. */
static unsigned garbage(Device self, unsigned long long last, nvmlProcessUtilizationSample_t *out)
{
    if (device_number(self, 0, "process_garbage") == 0)
        return 0;
    out[0] = (nvmlProcessUtilizationSample_t){.pid = 4194301, .timeStamp = last, .smUtil = 50};
    out[1] = (nvmlProcessUtilizationSample_t){.pid = 4194302, .timeStamp = last + 1, .smUtil = 0x7fffffff};
    return 2;
}

nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *out, unsigned *count,
                                             unsigned long long last)
{
    BEGIN;
    if (mig_enabled(self))
        return leave(NVML_ERROR_NOT_SUPPORTED);
    if (!out || *count < MAX_PROCESSES + 2) {
        *count = 100;
        return leave(NVML_ERROR_INSUFFICIENT_SIZE);
    }
    Process found[MAX_PROCESSES];
    int number = processes(self, 0, found);
    double period = device_number(self, 1000.0 / 6, "sample_period_ms") * 1000;
    unsigned long long stamp = (unsigned long long)(floor(seconds_now() * 1e6 / period) * period);
    unsigned written = garbage(self, last, out);
    for (int i = 0; i < number && stamp > last; i++) {
        Process *p = &found[i];
        if (p->sm || p->mem || p->encoder || p->decoder)
            out[written++] = (nvmlProcessUtilizationSample_t){p->pid, stamp, p->sm, p->mem, p->encoder, p->decoder};
    }
    *count = written;
    return leave(written ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND);
}
