/* GPM. A sample keeps whose it is and when it was taken; metrics are worked out between two of them. */
#include <stdlib.h>
#include "fake.h"

enum { STEPS = 32 };

struct nvmlGpmSample_st {
    Device device;
    double taken; /* scenario time; 0: not yet */
};

nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t device, nvmlGpmSupport_t *out)
{
    BEGIN;
    if (out->version != NVML_GPM_SUPPORT_VERSION)
        return leave(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    Device gpu = {self.gpu, NO_INSTANCE};
    out->isSupportedDevice = (unsigned)device_number(gpu, 0, "gpm");
    return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *out)
{
    BEGIN_SYSTEM;
    *out = calloc(1, sizeof **out);
    return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t sample)
{
    BEGIN_SYSTEM;
    free(sample);
    return leave(NVML_SUCCESS);
}

static int take(Device self, Device whose, nvmlGpmSample_t sample)
{
    Device gpu = {self.gpu, NO_INSTANCE};
    if (device_number(gpu, 0, "gpm") == 0)
        return NVML_ERROR_NOT_SUPPORTED;
    sample->device = whose;
    sample->taken = scenario_time();
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t device, nvmlGpmSample_t sample)
{
    BEGIN;
    return leave(take(self, self, sample));
}

nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t device, unsigned gpu_instance, nvmlGpmSample_t sample)
{
    BEGIN;
    for (int place = 0; place < MAX_INSTANCES; place++) {
        Device instance = {self.gpu, place};
        if (device_number(instance, -1, "gpu_instance") == gpu_instance)
            return leave(take(self, instance, sample));
    }
    return leave(NVML_ERROR_INVALID_ARGUMENT);
}

/* Ids from 248 on count since the boot: their value is the later sample's. The others are means of the window. */
static int metric(unsigned id, const struct nvmlGpmSample_st *from, const struct nvmlGpmSample_st *to, double *value)
{
    const char *text = device_text(to->device, "gpm.%u", id);
    if (id >= 248 && id < 405)
        return expression(text, to->taken, value);
    double sum = 0, moment = 0;
    for (int step = 0; step < STEPS; step++) {
        int code = expression(text, from->taken + (to->taken - from->taken) * (step + 0.5) / STEPS, &moment);
        if (code != NVML_SUCCESS)
            return code;
        sum += moment;
    }
    *value = sum / STEPS;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *query)
{
    BEGIN_SYSTEM;
    const struct nvmlGpmSample_st *from = query->sample1, *to = query->sample2;
    if (query->version != NVML_GPM_METRICS_GET_VERSION)
        return leave(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    if (!from || !to || from->device.gpu != to->device.gpu || from->device.instance != to->device.instance ||
        from->taken == 0 || to->taken <= from->taken)
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    for (unsigned i = 0; i < query->numMetrics; i++) {
        double value = 0;
        query->metrics[i].nvmlReturn = metric(query->metrics[i].metricId, from, to, &value);
        query->metrics[i].value = value;
    }
    return leave(NVML_SUCCESS);
}
