/* The library itself, and which devices there are. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include "fake.h"

static int copy(char *out, unsigned room, const char *text)
{
    int code;
    if (!text)
        return NVML_ERROR_NOT_SUPPORTED;
    if (sscanf(text, "ERR %d", &code) == 1)
        return code;
    if (strlen(text) >= room)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(out, text);
    return NVML_SUCCESS;
}

static const char *or(const char *text, const char *otherwise) { return text ? text : otherwise; }

nvmlReturn_t nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    BEGIN_SYSTEM;
    references++;
    return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

nvmlReturn_t nvmlShutdown(void)
{
    BEGIN_SYSTEM;
    references--;
    return leave(NVML_SUCCESS);
}

const char *nvmlErrorString(nvmlReturn_t code) { return code == NVML_SUCCESS ? "Success" : "error of the fake"; }

nvmlReturn_t nvmlSystemGetDriverVersion(char *out, unsigned room)
{
    BEGIN_SYSTEM;
    return leave(copy(out, room, or(scenario_text("driver_version"), "580.95.05")));
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *out, unsigned room)
{
    BEGIN_SYSTEM;
    return leave(copy(out, room, or(scenario_text("nvml_version"), "13.580.95.05")));
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *out)
{
    BEGIN_SYSTEM;
    *out = (int)scenario_number("cuda_version", 13000);
    return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *out) { return nvmlSystemGetCudaDriverVersion_v2(out); }

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *out)
{
    BEGIN_SYSTEM;
    *out = (unsigned)scenario_number("gpus", 0);
    return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *out)
{
    Device self = {(int)index, NO_INSTANCE};
    nvmlDevice_t device = handle_of(self);
    int code = enter(__func__, device, &self);
    if (code == NVML_SUCCESS && device_number(self, 0, "denied") != 0)
        code = NVML_ERROR_NO_PERMISSION;
    *out = code == NVML_SUCCESS ? device : NULL;
    return leave(code);
}

static bool has(Device device, const char *key, const char *wanted)
{
    const char *text = device_text(device, "%s", key);
    return text && !strcasecmp(text, wanted);
}

static int find(const char *key, const char *wanted, nvmlDevice_t *out)
{
    int gpus = (int)scenario_number("gpus", 0);
    for (int gpu = 0; gpu < gpus; gpu++)
        for (int instance = NO_INSTANCE; instance < MAX_INSTANCES; instance++) {
            Device device = {gpu, instance};
            if (has(device, key, wanted)) {
                *out = handle_of(device);
                return NVML_SUCCESS;
            }
        }
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *out)
{
    BEGIN_SYSTEM;
    return leave(find("uuid", uuid, out));
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *address, nvmlDevice_t *out)
{
    BEGIN_SYSTEM;
    return leave(find("bus_id", address, out));
}

#define TEXT(function, key)                                                   \
    nvmlReturn_t function(nvmlDevice_t device, char *out, unsigned room)      \
    {                                                                         \
        BEGIN;                                                                \
        return leave(copy(out, room, device_text(self, key)));                \
    }

TEXT(nvmlDeviceGetName, "name")
TEXT(nvmlDeviceGetUUID, "uuid")
TEXT(nvmlDeviceGetSerial, "serial")
TEXT(nvmlDeviceGetVbiosVersion, "vbios")
TEXT(nvmlDeviceGetBoardPartNumber, "part_number")

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *out)
{
    BEGIN;
    *out = (unsigned)(self.instance == NO_INSTANCE ? self.gpu : self.instance);
    return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned *out)
{
    BEGIN;
    if (self.instance != NO_INSTANCE)
        return leave(NVML_ERROR_NOT_SUPPORTED);
    *out = (unsigned)device_number(self, self.gpu, "minor");
    return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *out)
{
    BEGIN;
    Device gpu = {self.gpu, NO_INSTANCE};
    const char *address = device_text(gpu, "bus_id");
    if (!address)
        return leave(NVML_ERROR_NOT_SUPPORTED);
    memset(out, 0, sizeof *out);
    sscanf(address, "%x:%x:%x", &out->domain, &out->bus, &out->device);
    snprintf(out->busId, sizeof out->busId, "%08X:%02X:%02X.0", out->domain, out->bus, out->device);
    snprintf(out->busIdLegacy, sizeof out->busIdLegacy, "%04X:%02X:%02X.0", out->domain & 0xffff, out->bus & 0xff,
             out->device & 0xff);
    return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    BEGIN;
    Device gpu = {self.gpu, NO_INSTANCE};
    const char *text = device_text(gpu, "compute_capability");
    bool two = text && sscanf(text, "%d.%d", major, minor) == 2;
    return leave(two ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED);
}

GETTER(nvmlDeviceGetArchitecture, nvmlDeviceArchitecture_t, "architecture")
GETTER(nvmlDeviceGetBrand, nvmlBrandType_t, "brand")
GETTER(nvmlDeviceGetPersistenceMode, nvmlEnableState_t, "persistence")
GETTER(nvmlDeviceGetComputeMode, nvmlComputeMode_t, "compute_mode")
GETTER(nvmlDeviceGetModuleId, unsigned, "module_id")
GETTER(nvmlDeviceGetNumaNodeId, unsigned, "numa_node")

nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned words, unsigned long *out, nvmlAffinityScope_t scope)
{
    (void)scope;
    BEGIN;
    NEED(node, "numa_node");
    memset(out, 0, words * sizeof *out);
    if (node < words * 64.0)
        out[(unsigned)node / 64] = 1ul << ((unsigned)node % 64);
    return leave(NVML_SUCCESS);
}

/* The node's first CPUs, so many as the scenario says. */
nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned size, unsigned long *set)
{
    BEGIN;
    NEED(cpus, "cpus");
    memset(set, 0, size * sizeof *set);
    for (unsigned cpu = 0; cpu < cpus && cpu / (8 * sizeof *set) < size; cpu++)
        set[cpu / (8 * sizeof *set)] |= 1UL << cpu % (8 * sizeof *set);
    return leave(NVML_SUCCESS);
}
