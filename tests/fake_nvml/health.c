/* ECC, remapped rows, NVLink, fabric. */
#include <string.h>
#include "fake.h"

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, nvmlEnableState_t *current, nvmlEnableState_t *pending)
{
    BEGIN;
    NEED(mode, "ecc_mode");
    *current = (nvmlEnableState_t)mode;
    *pending = (nvmlEnableState_t)device_number(self, mode, "ecc_mode_pending");
    return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t type, nvmlEccCounterType_t counter,
                                         unsigned long long *out)
{
    BEGIN;
    NEED(errors, "ecc.%d.%d", type, counter);
    *out = (unsigned long long)errors;
    return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, nvmlMemoryErrorType_t type,
                                             nvmlEccCounterType_t counter, nvmlMemoryLocation_t location,
                                             unsigned long long *out)
{
    BEGIN;
    NEED(errors, "ecc.%d.%d.%d", type, counter, location);
    *out = (unsigned long long)errors;
    return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetSramEccErrorStatus(nvmlDevice_t device, nvmlEccSramErrorStatus_t *out)
{
    BEGIN;
    if (out->version != nvmlEccSramErrorStatus_v1)
        return leave(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    NEED(exceeded, "sram.threshold_exceeded");
    out->bThresholdExceeded = (unsigned)exceeded;
    out->volatileCor = (unsigned long long)device_number(self, 0, "sram.volatile_corrected");
    out->aggregateUncBucketOther = (unsigned long long)device_number(self, 0, "sram.bucket_other");
    return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned *corrected, unsigned *uncorrected,
                                       unsigned *pending, unsigned *failed)
{
    BEGIN;
    if (mig_enabled(self))
        return leave(NVML_ERROR_NOT_SUPPORTED);
    NEED(rows, "remapped.corrected");
    *corrected = (unsigned)rows;
    *uncorrected = (unsigned)device_number(self, 0, "remapped.uncorrected");
    *pending = (unsigned)device_number(self, 0, "remapped.pending");
    *failed = (unsigned)device_number(self, 0, "remapped.failed");
    return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetRowRemapperHistogram(nvmlDevice_t device, nvmlRowRemapperHistogramValues_t *out)
{
    BEGIN;
    NEED(most, "banks.max");
    out->max = (unsigned)most;
    out->high = (unsigned)device_number(self, 0, "banks.high");
    out->partial = (unsigned)device_number(self, 0, "banks.partial");
    out->low = (unsigned)device_number(self, 0, "banks.low");
    out->none = (unsigned)device_number(self, 0, "banks.none");
    return leave(NVML_SUCCESS);
}

/* Links past the device's own are no valid argument, though the header's constant allows more. */
static int link_value(Device self, unsigned link, const char *what, double *value)
{
    if (link >= device_number(self, 0, "nvlinks"))
        return NVML_ERROR_INVALID_ARGUMENT;
    int code = device_value(self, value, "nvlink%u.%s", link, what);
    return code == NVML_ERROR_NOT_SUPPORTED ? device_value(self, value, "nvlink.%s", what) : code;
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, nvmlEnableState_t *out)
{
    BEGIN;
    double value = 0;
    code = link_value(self, link, "state", &value);
    *out = (nvmlEnableState_t)value;
    return leave(code);
}

nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned link, unsigned *out)
{
    BEGIN;
    double value = 0;
    code = link_value(self, link, "version", &value);
    *out = (unsigned)value;
    return leave(code);
}

/* Blackwell and newer: machines that are part of a rack. */
nvmlReturn_t nvmlDeviceGetPlatformInfo(nvmlDevice_t device, nvmlPlatformInfo_t *out)
{
    BEGIN;
    if (out->version != nvmlPlatformInfo_v2)
        return leave(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    NEED(slot, "platform.slot");
    const char *chassis = device_text(self, "platform.chassis");
    memset(out->ibGuid, 0xcd, sizeof out->ibGuid);
    strncpy((char *)out->chassisSerialNumber, chassis ? chassis : "", sizeof out->chassisSerialNumber);
    out->slotNumber = (unsigned char)slot;
    out->trayIndex = (unsigned char)device_number(self, 0, "platform.tray");
    out->hostId = (unsigned char)device_number(self, 0, "platform.host");
    out->moduleId = (unsigned char)device_number(self, 0, "platform.module");
    return leave(NVML_SUCCESS);
}

/* Struct version 3 came with R570. */
nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfoV_t *out)
{
    BEGIN;
    bool third = out->version == nvmlGpuFabricInfo_v3 && driver_is(570, 0);
    if (!third && out->version != nvmlGpuFabricInfo_v2)
        return leave(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    NEED(state, "fabric.state");
    memset(out->clusterUuid, 0xab, sizeof out->clusterUuid);
    out->status = (nvmlReturn_t)device_number(self, NVML_SUCCESS, "fabric.status");
    out->cliqueId = (unsigned)device_number(self, 0, "fabric.clique");
    out->state = (nvmlGpuFabricState_t)state;
    out->healthMask = (unsigned)device_number(self, 0, "fabric.health_mask");
    if (third)
        out->healthSummary = (unsigned char)device_number(self, 0, "fabric.health_summary");
    return leave(NVML_SUCCESS);
}
