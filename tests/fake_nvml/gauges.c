/* Readings that are one or a few numbers. */
#include <string.h>
#include "fake.h"

GETTER(nvmlDeviceGetPowerUsage, unsigned, "power_mw")
GETTER(nvmlDeviceGetPowerManagementLimit, unsigned, "power_limit_mw")
GETTER(nvmlDeviceGetEnforcedPowerLimit, unsigned, "power_limit_mw")
GETTER(nvmlDeviceGetPowerManagementDefaultLimit, unsigned, "power_default_mw")
GETTER(nvmlDeviceGetTotalEnergyConsumption, unsigned long long, "energy_mj")
GETTER(nvmlDeviceGetPerformanceState, nvmlPstates_t, "pstate")
GETTER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned, "pcie_generation")
GETTER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, "pcie_generation_max")
GETTER(nvmlDeviceGetCurrPcieLinkWidth, unsigned, "pcie_width")
GETTER(nvmlDeviceGetMaxPcieLinkWidth, unsigned, "pcie_width_max")
GETTER(nvmlDeviceGetPcieReplayCounter, unsigned, "pcie_replay")
GETTER(nvmlDeviceGetNumFans, unsigned, "fans")
GETTER(nvmlDeviceGetFanSpeed, unsigned, "fan_percent")
GETTER(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, "clock_reasons")
GETTER(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, "clock_reasons")
GETTER(nvmlDeviceGetSupportedClocksEventReasons, unsigned long long, "clock_reasons_supported")
GETTER(nvmlDeviceGetSupportedClocksThrottleReasons, unsigned long long, "clock_reasons_supported")

nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned *least, unsigned *most)
{
    BEGIN;
    NEED(low, "power_min_mw");
    NEED(high, "power_max_mw");
    *least = (unsigned)low;
    *most = (unsigned)high;
    return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor, unsigned *out)
{
    (void)sensor;
    BEGIN;
    NEED(celsius, "temperature");
    *out = (unsigned)celsius;
    return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *out)
{
    BEGIN;
    if (out->version != nvmlTemperature_v1)
        return leave(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    NEED(celsius, "temperature");
    out->temperature = (int)celsius;
    return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetMarginTemperature(nvmlDevice_t device, nvmlMarginTemperature_t *out)
{
    BEGIN;
    if (out->version != nvmlMarginTemperature_v1)
        return leave(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    NEED(celsius, "temperature_margin");
    out->marginTemperature = (int)celsius;
    return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, nvmlTemperatureThresholds_t which, unsigned *out)
{
    BEGIN;
    NEED(celsius, "temperature_threshold.%d", which);
    *out = (unsigned)celsius;
    return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetFanSpeed_v2(nvmlDevice_t device, unsigned fan, unsigned *out)
{
    BEGIN;
    NEED(percent, "fan_percent");
    if (fan >= device_number(self, 0, "fans"))
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    *out = (unsigned)percent;
    return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetFanSpeedRPM(nvmlDevice_t device, nvmlFanSpeedInfo_t *out)
{
    BEGIN;
    if (out->version != nvmlFanSpeedInfo_v1)
        return leave(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    NEED(rounds, "fan_rpm");
    if (out->fan >= device_number(self, 0, "fans"))
        return leave(NVML_ERROR_INVALID_ARGUMENT);
    out->speed = (unsigned)rounds;
    return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t clock, unsigned *out)
{
    BEGIN;
    NEED(megahertz, "clock.%d", clock);
    *out = (unsigned)megahertz;
    return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t clock, unsigned *out)
{
    BEGIN;
    NEED(megahertz, "clock_max.%d", clock);
    *out = (unsigned)megahertz;
    return leave(NVML_SUCCESS);
}

/* The older call counts the driver's reserve as used, the newer one does not. */
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *out)
{
    BEGIN;
    NEED(total, "memory_total");
    out->total = (unsigned long long)total;
    out->used = (unsigned long long)(device_number(self, 0, "memory_used") + device_number(self, 0, "memory_reserved"));
    out->free = out->total - out->used;
    return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *out)
{
    BEGIN;
    if (out->version != nvmlMemory_v2)
        return leave(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
    NEED(total, "memory_total");
    out->total = (unsigned long long)total;
    out->reserved = (unsigned long long)device_number(self, 0, "memory_reserved");
    out->used = (unsigned long long)device_number(self, 0, "memory_used");
    out->free = out->total - out->reserved - out->used;
    return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *out)
{
    BEGIN;
    NEED(total, "bar1_total");
    out->bar1Total = (unsigned long long)total;
    out->bar1Used = (unsigned long long)device_number(self, 0, "bar1_used");
    out->bar1Free = out->bar1Total - out->bar1Used;
    return leave(NVML_SUCCESS);
}

nvmlReturn_t nvmlDeviceGetViolationStatus(nvmlDevice_t device, nvmlPerfPolicyType_t policy, nvmlViolationTime_t *out)
{
    BEGIN;
    NEED(nanoseconds, "violation_ns.%d", policy);
    out->referenceTime = (unsigned long long)(seconds_now() * 1e6);
    out->violationTime = (unsigned long long)nanoseconds;
    return leave(NVML_SUCCESS);
}

/* The real call measures for 20 ms; so does this one. */
nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, nvmlPcieUtilCounter_t which, unsigned *out)
{
    BEGIN;
    NEED(kilobytes, "pcie_throughput.%d", which);
    *out = (unsigned)kilobytes;
    pause_unlocked(0.02);
    return leave(NVML_SUCCESS);
}
