/* What every call passes through: the lock, the log, injected errors and delays, lost GPUs. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "fake.h"

enum { FIRST_HANDLE = 0x100000, HANDLES_PER_GPU = 64, NAME = 96, STEP_US = 5000 };

int references;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void note(const char *function, int gpu)
{
    static int file = -1;
    const char *path = getenv("FAKE_NVML_LOG");
    if (!path)
        return;
    if (file < 0)
        file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    char line[NAME + 16];
    int length = gpu < 0 ? snprintf(line, sizeof line, "%s\n", function)
                         : snprintf(line, sizeof line, "%s gpu%d\n", function, gpu);
    if (write(file, line, (size_t)length) < 0)
        return;
}

nvmlDevice_t handle_of(Device device)
{
    return (nvmlDevice_t)(size_t)(FIRST_HANDLE + device.gpu * HANDLES_PER_GPU + device.instance + 1);
}

static bool decode(nvmlDevice_t handle, Device *device)
{
    size_t number = (size_t)handle;
    if (number < FIRST_HANDLE)
        return false;
    device->gpu = (int)((number - FIRST_HANDLE) / HANDLES_PER_GPU);
    device->instance = (int)((number - FIRST_HANDLE) % HANDLES_PER_GPU) - 1;
    return device->gpu < (int)scenario_number("gpus", 0);
}

bool driver_is(int major, int minor)
{
    const char *version = scenario_text("driver_version");
    int have = 580, release = 95;
    if (version)
        sscanf(version, "%d.%d", &have, &release);
    return have > major || (have == major && release >= minor);
}

bool mig_enabled(Device device)
{
    Device gpu = {device.gpu, NO_INSTANCE};
    return device_number(gpu, 0, "mig") != 0;
}

void pause_unlocked(double seconds)
{
    pthread_mutex_unlock(&lock);
    usleep((useconds_t)(seconds * 1e6));
    pthread_mutex_lock(&lock);
    scenario_load();
}

/* The value of call.FUNCTION or call.*, the GPU's own first; NULL where nothing is injected. */
static const char *injected(const char *function, int gpu)
{
    char key[NAME + 32];
    const char *names[] = {function, "*"};
    for (int i = 0; i < 2 && gpu >= 0; i++) {
        snprintf(key, sizeof key, "gpu%d.call.%s", gpu, names[i]);
        if (scenario_text(key))
            return scenario_text(key);
    }
    snprintf(key, sizeof key, "call.%s", function);
    return scenario_text(key);
}

/* Obey `ERR n` and `SLEEP s`. A sleep ends early when the scenario no longer asks for it. */
static int obey(const char *function, int gpu)
{
    double started = seconds_now(), seconds;
    for (;;) {
        const char *order = injected(function, gpu);
        int code;
        if (order && sscanf(order, "ERR %d", &code) == 1)
            return code;
        if (!order || sscanf(order, "SLEEP %lf", &seconds) != 1 || seconds_now() - started >= seconds)
            return NVML_SUCCESS;
        pause_unlocked(STEP_US / 1e6);
    }
}

/* What a real driver's call costs its caller: `call_us` of CPU time. */
static void spend(void)
{
    double seconds = scenario_number("call_us", 0) / 1e6, started = seconds_now();
    while (seconds > 0 && seconds_now() - started < seconds)
        ;
}

static int begin(const char *function, int gpu)
{
    note(function, gpu);
    spend();
    int code = obey(function, gpu);
    bool init = !strncmp(function, "nvmlInit", strlen("nvmlInit"));
    if (scenario_number("driver_gone", 0) != 0) {
        references = 0;
        return init ? NVML_ERROR_DRIVER_NOT_LOADED : NVML_ERROR_UNINITIALIZED;
    }
    if (code == NVML_SUCCESS && !init && references < 1)
        return NVML_ERROR_UNINITIALIZED;
    return code;
}

int enter_system(const char *function)
{
    pthread_mutex_lock(&lock);
    scenario_load();
    return begin(function, -1);
}

int enter(const char *function, nvmlDevice_t handle, Device *device)
{
    pthread_mutex_lock(&lock);
    scenario_load();
    bool known = decode(handle, device);
    int code = begin(function, known ? device->gpu : -1);
    if (code != NVML_SUCCESS)
        return code;
    if (!known)
        return NVML_ERROR_INVALID_ARGUMENT;
    Device gpu = {device->gpu, NO_INSTANCE};
    int lost = (int)device_number(gpu, 0, "lost");
    if (lost)
        return lost == 1 ? NVML_ERROR_GPU_IS_LOST : lost;
    bool gone = device->instance != NO_INSTANCE && !device_text(*device, "uuid");
    return gone ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
}

int leave(int code)
{
    pthread_mutex_unlock(&lock);
    return code;
}

int stub(const char *function)
{
    int code = enter_system(function);
    return leave(code == NVML_SUCCESS ? NVML_ERROR_NOT_SUPPORTED : code);
}
