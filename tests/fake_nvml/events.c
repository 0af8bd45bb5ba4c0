/* XID events: `gpuN.event.K = SECONDS XID`, given out once when the scenario's time has come. */
#include <stdio.h>
#include <stdlib.h>
#include "fake.h"

enum { EVENTS = 64 };

struct nvmlEventSet_st {
    bool registered[MAX_GPUS];
};

static bool given[MAX_GPUS][EVENTS];

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *out)
{
    BEGIN_SYSTEM;
    *out = calloc(1, sizeof **out);
    return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
    BEGIN_SYSTEM;
    free(set);
    return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *out)
{
    BEGIN;
    bool some = device_number(self, 1, "events") != 0;
    *out = some ? nvmlEventTypeXidCriticalError | nvmlEventTypeDoubleBitEccError : 0;
    return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set)
{
    BEGIN;
    if (self.instance != NO_INSTANCE || self.gpu >= MAX_GPUS)
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    if (types & ~(nvmlEventTypeXidCriticalError | nvmlEventTypeDoubleBitEccError))
        return leave(NVML_ERROR_NOT_SUPPORTED);
    set->registered[self.gpu] = types & nvmlEventTypeXidCriticalError;
    return leave(NVML_SUCCESS);
}

static bool next(const struct nvmlEventSet_st *set, nvmlEventData_t *out)
{
    int gpus = (int)scenario_number("gpus", 0);
    for (int gpu = 0; gpu < gpus && gpu < MAX_GPUS; gpu++)
        for (int k = 0; k < EVENTS && set->registered[gpu]; k++) {
            Device device = {gpu, NO_INSTANCE};
            const char *text = device_text(device, "event.%d", k);
            double at;
            unsigned xid;
            if (!text || given[gpu][k] || sscanf(text, "%lf %u", &at, &xid) != 2 || scenario_time() < at)
                continue;
            given[gpu][k] = true;
            *out = (nvmlEventData_t){handle_of(device), nvmlEventTypeXidCriticalError, xid, 0xffffffffu, 0xffffffffu};
            return true;
        }
    return false;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *out, unsigned milliseconds)
{
    BEGIN_SYSTEM;
    double deadline = seconds_now() + milliseconds / 1000.0;
    for (;;) {
        if (references < 1 || scenario_number("driver_gone", 0) != 0)
            return leave(NVML_ERROR_UNINITIALIZED);
        if (next(set, out))
            return leave(NVML_SUCCESS);
        if (seconds_now() >= deadline)
            return leave(NVML_ERROR_TIMEOUT);
        pause_unlocked(0.01);
    }
}
