/* MIG: the instances of a GPU, at places that need not be filled in order. */
#include <string.h>
#include "fake.h"

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *current, unsigned *pending)
{
    BEGIN;
    Device gpu = {self.gpu, NO_INSTANCE};
    double mode;
    code = device_value(gpu, &mode, "mig");
    if (code == NVML_SUCCESS)
        *current = *pending = (unsigned)mode;
    return leave(code);
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned *out)
{
    BEGIN;
    *out = mig_enabled(self) ? (unsigned)device_number(self, 7, "mig_places") : 0;
    return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned place, nvmlDevice_t *out)
{
    BEGIN;
    Device instance = {self.gpu, (int)place};
    if (self.instance != NO_INSTANCE || place >= MAX_INSTANCES)
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    if (!mig_enabled(self) || !device_text(instance, "uuid"))
        return leave(NVML_ERROR_NOT_FOUND);
    *out = handle_of(instance);
    return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned *out)
{
    BEGIN;
    *out = self.instance != NO_INSTANCE;
    return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t device, nvmlDevice_t *out)
{
    BEGIN;
    Device gpu = {self.gpu, NO_INSTANCE};
    if (self.instance == NO_INSTANCE)
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    *out = handle_of(gpu);
    return leave(NVML_SUCCESS);
}

static nvmlReturn_t number_of_instance(const char *function, nvmlDevice_t device, const char *key, unsigned *out)
{
    Device self;
    int code = enter(function, device, &self);
    if (code == NVML_SUCCESS && self.instance == NO_INSTANCE)
        code = NVML_ERROR_INVALID_ARGUMENT;
    double value = 0;
    if (code == NVML_SUCCESS)
        code = device_value(self, &value, "%s", key);
    *out = (unsigned)value;
    return leave(code);
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned *out)
{
    return number_of_instance(__func__, device, "gpu_instance", out);
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned *out)
{
    return number_of_instance(__func__, device, "compute_instance", out);
}

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *out)
{
    BEGIN;
    NEED(slices, "compute_slices");
    memset(out, 0, sizeof *out);
    out->multiprocessorCount = (unsigned)device_number(self, 0, "sm_count");
    out->computeInstanceSliceCount = (unsigned)slices;
    out->gpuInstanceSliceCount = (unsigned)device_number(self, slices, "gpu_slices");
    out->memorySizeMB = (unsigned long long)device_number(self, 0, "memory_mib");
    return leave(NVML_SUCCESS);
}
