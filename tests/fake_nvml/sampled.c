/* What the driver measures over sampling periods: utilization, and the buffers of past samples. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "fake.h"

enum { STEPS = 32, DEPTH = 100, PROCESSOR_CLOCK = 1, MEMORY_CLOCK = 2, GARBAGE = 0x7fffffff };

static double period_of(Device device) { return device_number(device, 1000.0 / 6, "sample_period_ms") / 1000; }

/* The integral of a `square` from 0 to `when`. */
static double square_until(double when, double low, double high, double period, double duty)
{
    double whole = floor(when / period);
    return low * when + (high - low) * (whole * duty * period + fmin(when - whole * period, duty * period));
}

/* The mean over the period that ends at `end` (scenario time): as the driver tells busy time, not a moment. */
static int mean(Device device, const char *key, double end, double *value)
{
    double period = period_of(device), sum = 0, moment = 0;
    const char *text = device_text(device, "%s", key);
    if (!changes(text)) /* a driver hands out what it has measured: thirty times the same would be no driver's cost */
        return expression(text, end, value);
    double a, b, length, duty;
    if (sscanf(text, "square %lf %lf %lf %lf", &a, &b, &length, &duty) == 4) {
        *value = (square_until(end, a, b, length, duty) - square_until(end - period, a, b, length, duty)) / period;
        return NVML_SUCCESS;
    }
    for (int step = 0; step < STEPS; step++) {
        int code = expression(text, end - period * (step + 0.5) / STEPS, &moment);
        if (code != NVML_SUCCESS)
            return code;
        sum += moment;
    }
    *value = sum / STEPS;
    return NVML_SUCCESS;
}

static double last_of(Device device, double when) { return floor(when / period_of(device) + 1e-9) * period_of(device); }

int sampled(Device device, const char *key, double *value)
{
    double end = last_of(device, scenario_time());
    return mig_enabled(device) ? NVML_ERROR_NOT_SUPPORTED : mean(device, key, end, value);
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *out)
{
    BEGIN;
    double gpu = 0, memory = 0;
    code = sampled(self, "utilization", &gpu);
    if (code == NVML_SUCCESS)
        sampled(self, "memory_utilization", &memory);
    out->gpu = (unsigned)lrint(gpu);
    out->memory = (unsigned)lrint(memory);
    return leave(code);
}

#define ENGINE(function, key)                                                          \
    nvmlReturn_t function(nvmlDevice_t device, unsigned *out, unsigned *period)        \
    {                                                                                  \
        BEGIN;                                                                         \
        double percent = 0;                                                            \
        code = sampled(self, key, &percent);                                           \
        *out = (unsigned)lrint(percent);                                               \
        *period = (unsigned)(period_of(self) * 1e6);                                   \
        return leave(code);                                                            \
    }

ENGINE(nvmlDeviceGetEncoderUtilization, "encoder_utilization")
ENGINE(nvmlDeviceGetDecoderUtilization, "decoder_utilization")
ENGINE(nvmlDeviceGetJpgUtilization, "jpeg_utilization")
ENGINE(nvmlDeviceGetOfaUtilization, "ofa_utilization")

static const char *const sample_keys[] = {
    [NVML_TOTAL_POWER_SAMPLES] = "power_mw",
    [NVML_GPU_UTILIZATION_SAMPLES] = "utilization",
    [NVML_MEMORY_UTILIZATION_SAMPLES] = "memory_utilization",
    [NVML_ENC_UTILIZATION_SAMPLES] = "encoder_utilization",
    [NVML_DEC_UTILIZATION_SAMPLES] = "decoder_utilization",
    [NVML_PROCESSOR_CLK_SAMPLES] = "clock.1",
    [NVML_MEMORY_CLK_SAMPLES] = "clock.2",
};

static bool is_utilization(unsigned type)
{
    return type >= NVML_GPU_UTILIZATION_SAMPLES && type <= NVML_DEC_UTILIZATION_SAMPLES;
}

/* Fill `out` with the samples after `last` (µs), oldest first, as far as the buffer goes and the caller has room. */
static unsigned fill(Device self, const char *key, unsigned long long last, unsigned room, nvmlSample_t *out)
{
    double period = period_of(self), batch = device_number(self, 0, "sample_batch_s"), now = scenario_time();
    double newest = last_of(self, batch > 0 ? floor(now / batch) * batch : now);
    bool idle = device_number(self, 1, "samples_idle") != 0;
    unsigned depth = (unsigned)device_number(self, DEPTH, "sample_depth"), written = 0;
    for (unsigned back = depth; back-- > 0 && written < room;) {
        double end = newest - back * period, value;
        unsigned long long stamp = (unsigned long long)llrint((end + scenario_epoch()) * 1e6);
        /* a driver compares milliseconds (H200, 580.159) */
        if (end <= 0 || stamp / 1000 <= last / 1000 || mean(self, key, end, &value) != NVML_SUCCESS)
            continue;
        if (!idle && lrint(value) == 0)
            continue;
        memset(&out[written], 0, sizeof *out);
        out[written].timeStamp = stamp;
        out[written].sampleValue.uiVal = (unsigned)lrint(value);
        written++;
    }
    return written;
}

nvmlReturn_t nvmlDeviceGetSamples(nvmlDevice_t device, nvmlSamplingType_t type, unsigned long long last,
                                  nvmlValueType_t *value_type, unsigned *count, nvmlSample_t *out)
{
    BEGIN;
    const char *key = (unsigned)type < sizeof sample_keys / sizeof *sample_keys ? sample_keys[type] : NULL;
    if (!key || (is_utilization(type) && (mig_enabled(self) || device_number(self, 1, "samples") == 0)))
        return leave(NVML_ERROR_NOT_SUPPORTED);
    NEED(now, "%s", key);
    (void)now;
    *value_type = NVML_VALUE_TYPE_UNSIGNED_INT;
    if (!out) {
        *count = (unsigned)device_number(self, DEPTH, "sample_depth");
        return leave(NVML_SUCCESS);
    }
    *count = fill(self, key, last, *count, out);
    return leave(*count ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND);
}
