/* What one pass costs in C: the driver calls that the exporter makes every second, and nothing else.
   Prints the CPU milliseconds of a pass. Arguments: GPUs, passes. */
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_GPUS = 64, SAMPLES = 256, PROCESSES = 128, METRICS = 13 };

static const unsigned throttle[] = {74, 76, 77, 78, 79, 269, 270, 271}, pcie[] = {197, 198}, nvlink[] = {138, 139};
static const unsigned metrics[METRICS] = {1, 2, 3, 5, 10, 11, 12, 13, 4, 20, 21, 60, 61};
static nvmlSample_t samples[SAMPLES];
static nvmlProcessUtilizationSample_t processes[PROCESSES];
static nvmlFieldValue_t values[16];
static nvmlGpmMetricsGet_t query;

static double cpu_milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

static void fields(nvmlDevice_t device, const unsigned *ids, int count)
{
    memset(values, 0, sizeof values);
    for (int i = 0; i < count; i++)
        values[i].fieldId = ids[i];
    nvmlDeviceGetFieldValues(device, count, values);
}

static unsigned long long newest(nvmlDevice_t device, nvmlSamplingType_t type, unsigned long long since)
{
    nvmlValueType_t kind;
    unsigned count = SAMPLES;
    if (nvmlDeviceGetSamples(device, type, since, &kind, &count, samples) || !count)
        return since;
    return samples[count - 1].timeStamp;
}

static void activity(nvmlDevice_t device, nvmlGpmSample_t *pair)
{
    nvmlGpmSample_t earlier = pair[0];
    pair[0] = pair[1];
    pair[1] = earlier;
    nvmlGpmSampleGet(device, pair[1]);
    query.version = NVML_GPM_METRICS_GET_VERSION;
    query.numMetrics = METRICS;
    query.sample1 = pair[0];
    query.sample2 = pair[1];
    for (int i = 0; i < METRICS; i++)
        query.metrics[i].metricId = metrics[i];
    nvmlGpmMetricsGet(&query);
}

int main(int count, char **given)
{
    static nvmlDevice_t devices[MOST_GPUS];
    static nvmlGpmSample_t pairs[MOST_GPUS][2];
    static unsigned long long since[MOST_GPUS][3];
    int gpus = count > 1 ? atoi(given[1]) : 8, passes = count > 2 ? atoi(given[2]) : 100;
    if (gpus > MOST_GPUS || nvmlInit_v2())
        return 1;
    for (int gpu = 0; gpu < gpus; gpu++) {
        nvmlDeviceGetHandleByIndex_v2(gpu, &devices[gpu]);
        for (int i = 0; i < 2; i++) {
            nvmlGpmSampleAlloc(&pairs[gpu][i]);
            nvmlGpmSampleGet(devices[gpu], pairs[gpu][i]);
        }
    }
    double spent = 0;
    for (int pass = 0; pass < passes; pass++) {
        struct timespec gap = {0, 110000000};
        nanosleep(&gap, NULL);
        double began = cpu_milliseconds();
        for (int gpu = 0; gpu < gpus; gpu++) {
            nvmlDevice_t device = devices[gpu];
            nvmlUtilization_t rates;
            unsigned milliwatts, entries = PROCESSES;
            unsigned long long millijoules, reasons;
            nvmlDeviceGetUtilizationRates(device, &rates);
            since[gpu][0] = newest(device, NVML_GPU_UTILIZATION_SAMPLES, since[gpu][0]);
            since[gpu][1] = newest(device, NVML_MEMORY_UTILIZATION_SAMPLES, since[gpu][1]);
            activity(device, pairs[gpu]);
            fields(device, pcie, 2);
            fields(device, nvlink, 2);
            nvmlDeviceGetPowerUsage(device, &milliwatts);
            nvmlDeviceGetTotalEnergyConsumption(device, &millijoules);
            nvmlDeviceGetCurrentClocksEventReasons(device, &reasons);
            fields(device, throttle, 8);
            if (!nvmlDeviceGetProcessUtilization(device, processes, &entries, since[gpu][2]) && entries)
                since[gpu][2] = processes[0].timeStamp;
        }
        spent += cpu_milliseconds() - began;
    }
    printf("%.3f\n", spent / passes);
    return 0;
}
