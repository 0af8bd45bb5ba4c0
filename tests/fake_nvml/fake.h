/* A fake libnvidia-ml.so.1: it answers from a scenario file, which may be edited while a program runs on it. */
#ifndef FAKE_H
#define FAKE_H

#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <stdbool.h>
#include <stddef.h>
#include "nvml.h"

enum { MAX_GPUS = 64, MAX_INSTANCES = 16, MAX_PROCESSES = 64, NO_INSTANCE = -1 };

/* What a handle stands for. `instance` is NO_INSTANCE for a GPU. */
typedef struct {
    int gpu;
    int instance;
} Device;

/* scenario.c: values by key. Expressions are described in README.md. */
double seconds_now(void);                     /* Unix time */
double scenario_epoch(void);                  /* Unix time at which the scenario began */
double scenario_time(void);                   /* seconds since then */
void scenario_load(void);                     /* reads the file again if it has changed */
const char *scenario_text(const char *key);   /* NULL where the scenario has no such key */
const char *device_text(Device device, const char *format, ...);
bool changes(const char *text); /* with time */
int expression(const char *text, double when, double *value); /* an NVML return code */
int device_value(Device device, double *value, const char *format, ...);
double device_number(Device device, double otherwise, const char *key);
double scenario_number(const char *key, double otherwise);

/* entry.c: what every call passes through. The scenario is locked from entering to leaving. */
int enter(const char *function, nvmlDevice_t handle, Device *device);
int enter_system(const char *function);
int leave(int code);
int stub(const char *function);
void pause_unlocked(double seconds);
bool driver_is(int major, int minor);         /* driver_version is this or newer */
nvmlDevice_t handle_of(Device device);
bool mig_enabled(Device device);
extern int references;                        /* nvmlInit less nvmlShutdown */

/* Begin a call about `device`; the locals are `self` and, while failing, `code`. */
#define BEGIN                                        \
    Device self = {0, NO_INSTANCE};                  \
    int code = enter(__func__, device, &self);       \
    if (code != NVML_SUCCESS)                        \
        return leave(code)

#define BEGIN_SYSTEM                                 \
    int code = enter_system(__func__);               \
    if (code != NVML_SUCCESS)                        \
        return leave(code)

/* Read a number of the scenario into a local; a missing key ends the call with NOT_SUPPORTED. */
#define NEED(name, ...)                              \
    double name;                                     \
    code = device_value(self, &name, __VA_ARGS__);   \
    if (code != NVML_SUCCESS)                        \
        return leave(code)

/* A function that fills one number. */
#define GETTER(function, type, key)                  \
    nvmlReturn_t function(nvmlDevice_t device, type *out) \
    {                                                \
        BEGIN;                                       \
        NEED(value, key);                            \
        *out = (type)value;                          \
        return leave(NVML_SUCCESS);                  \
    }

/* sampled.c: what the driver's own sampling shows of a changing value */
int sampled(Device device, const char *key, double *value);

#endif
