/* The scenario: `key = value` lines in the file FAKE_NVML_SCENARIO names. */
#define _GNU_SOURCE
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include "fake.h"

enum { SLOTS = 16384, KEY = 192, LINE = 1024 };

typedef struct {
    char *key;
    char *value;
} Entry;

static Entry table[SLOTS]; /* open addressing */
static struct stat seen; /* the file as it was read; a replaced one has another inode */
static double epoch, frozen;

double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

double scenario_epoch(void) { return epoch; }

double scenario_time(void) { return expression(scenario_text("clock"), 0, &frozen) ? seconds_now() - epoch : frozen; }

static Entry *slot(const char *key)
{
    unsigned hash = 2166136261u;
    for (const char *c = key; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 16777619u;
    Entry *entry = &table[hash % SLOTS];
    while (entry->key && strcmp(entry->key, key))
        entry = entry + 1 < table + SLOTS ? entry + 1 : table;
    return entry;
}

static void forget(void)
{
    for (int i = 0; i < SLOTS; i++) {
        free(table[i].key);
        free(table[i].value);
    }
    memset(table, 0, sizeof table);
}

static char *trimmed(char *text)
{
    text += strspn(text, " \t");
    for (char *end = text + strlen(text); end > text && strchr(" \t\r\n", end[-1]);)
        *--end = 0;
    return text;
}

static void read_file(FILE *file)
{
    char line[LINE];
    int entries = 0;
    while (fgets(line, sizeof line, file) && entries < SLOTS / 2) {
        char *equals = strchr(line, '=');
        if (line[0] == '#' || !equals)
            continue;
        *equals = 0;
        Entry *entry = slot(trimmed(line));
        if (!entry->key) {
            entry->key = strdup(trimmed(line));
            entries++;
        }
        free(entry->value);
        entry->value = strdup(trimmed(equals + 1));
    }
}

void scenario_load(void)
{
    const char *path = getenv("FAKE_NVML_SCENARIO");
    struct stat state;
    if (!path || stat(path, &state))
        return;
    if (state.st_ino == seen.st_ino && state.st_size == seen.st_size &&
        !memcmp(&state.st_mtim, &seen.st_mtim, sizeof seen.st_mtim))
        return;
    FILE *file = fopen(path, "r");
    if (!file)
        return;
    forget();
    read_file(file);
    fclose(file);
    seen = state;
    const char *given = scenario_text("epoch");
    epoch = given ? atof(given) : epoch ? epoch : seconds_now();
}

const char *scenario_text(const char *key) { return slot(key)->value; }

/* An instance's own key, or gpuN.KEY before gpu.KEY. */
static const char *find(Device device, const char *key)
{
    char full[KEY + 32];
    if (device.instance != NO_INSTANCE) {
        snprintf(full, sizeof full, "gpu%d.mig%d.%s", device.gpu, device.instance, key);
        return scenario_text(full);
    }
    snprintf(full, sizeof full, "gpu%d.%s", device.gpu, key);
    const char *own = scenario_text(full);
    snprintf(full, sizeof full, "gpu.%s", key);
    return own ? own : scenario_text(full);
}

const char *device_text(Device device, const char *format, ...)
{
    char key[KEY];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(key, sizeof key, format, arguments);
    va_end(arguments);
    return find(device, key);
}

int device_value(Device device, double *value, const char *format, ...)
{
    char key[KEY];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(key, sizeof key, format, arguments);
    va_end(arguments);
    return expression(find(device, key), scenario_time(), value);
}

double device_number(Device device, double otherwise, const char *key)
{
    double value;
    return device_value(device, &value, "%s", key) == NVML_SUCCESS ? value : otherwise;
}

double scenario_number(const char *key, double otherwise)
{
    double value;
    return expression(scenario_text(key), scenario_time(), &value) == NVML_SUCCESS ? value : otherwise;
}

/* Whether it is more than a number, which is the same at all times; most values are. */
bool changes(const char *text) { return text && strchr("Ers", *text); }

int expression(const char *text, double when, double *value)
{
    double a, b, period, duty;
    int code;
    if (!text)
        return NVML_ERROR_NOT_SUPPORTED;
    if (!changes(text)) {
        *value = strtod(text, NULL);
        return NVML_SUCCESS;
    }
    if (sscanf(text, "ERR %d", &code) == 1)
        return code;
    if (sscanf(text, "rate %lf base %lf", &a, &b) == 2)
        *value = b + a * when;
    else if (sscanf(text, "rate %lf", &a) == 1)
        *value = a * when;
    else if (sscanf(text, "sine %lf %lf %lf", &a, &b, &period) == 3)
        *value = a + (b - a) * 0.5 * (1 - cos(2 * M_PI * when / period));
    else if (sscanf(text, "square %lf %lf %lf %lf", &a, &b, &period, &duty) == 4)
        *value = fmod(fmod(when, period) + period, period) < duty * period ? b : a;
    else
        return NVML_ERROR_UNKNOWN; /* a mistake in the scenario */
    return NVML_SUCCESS;
}
