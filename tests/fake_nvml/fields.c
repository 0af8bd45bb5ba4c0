/* nvmlDeviceGetFieldValues. */
#include <stdio.h>
#include <string.h>
#include "fake.h"

static const char *const event_counters[] = {"sw_thermal", "hw_thermal", "hw_power_brake"};

/* The time counters of the clock events sit at 251-253 in R575 and 580.65, at 269-271 from 580.82 on. */
static const char *event_counter(unsigned field)
{
    bool early = driver_is(575, 0) && !driver_is(580, 66), late = driver_is(580, 82);
    if (early && field >= 251 && field <= 253)
        return event_counters[field - 251];
    if (late && field >= 269 && field <= 271)
        return event_counters[field - 269];
    return NULL;
}

static const char *text_of(Device self, unsigned field, unsigned scope)
{
    const char *counter = event_counter(field);
    if (counter)
        return device_text(self, "event_ns.%s", counter);
    const char *scoped = device_text(self, "field.%u.%u", field, scope);
    return scoped ? scoped : device_text(self, "field.%u", field);
}

/* The first letter tells the type: u unsigned, l unsigned long, L unsigned long long (also without a letter), i int,
   s signed long long, h unsigned short, d double. */
static void write_value(nvmlFieldValue_t *entry, char type, double value)
{
    memset(&entry->value, 0, sizeof entry->value);
    switch (type) {
    case 'd': entry->valueType = NVML_VALUE_TYPE_DOUBLE; entry->value.dVal = value; break;
    case 'u': entry->valueType = NVML_VALUE_TYPE_UNSIGNED_INT; entry->value.uiVal = (unsigned)value; break;
    case 'l': entry->valueType = NVML_VALUE_TYPE_UNSIGNED_LONG; entry->value.ulVal = (unsigned long)value; break;
    case 's': entry->valueType = NVML_VALUE_TYPE_SIGNED_LONG_LONG; entry->value.sllVal = (long long)value; break;
    case 'i': entry->valueType = NVML_VALUE_TYPE_SIGNED_INT; entry->value.siVal = (int)value; break;
    case 'h': entry->valueType = NVML_VALUE_TYPE_UNSIGNED_SHORT; entry->value.usVal = (unsigned short)value; break;
    default: entry->valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG; entry->value.ullVal = (unsigned long long)value;
    }
}

/* Whether the entry got a value. `untouched` leaves it as it came, as drivers do for ECC counters with ECC off. */
static bool answer(Device self, nvmlFieldValue_t *entry)
{
    const char *text = text_of(self, entry->fieldId, entry->scopeId);
    if (text && !strcmp(text, "untouched"))
        return true;
    char type = text && strchr("dulLsih", *text) ? *text++ : 'L';
    double value = 0;
    if (text && (!strncmp(text, "ine ", 4) || !strncmp(text, "quare ", 6))) /* sine, square: the s was no type */
        text--, type = 'L';
    entry->nvmlReturn = expression(text, scenario_time(), &value);
    entry->timestamp = (long long)(seconds_now() * 1e6);
    entry->latencyUsec = 1;
    write_value(entry, type, value);
    return entry->nvmlReturn == NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
    BEGIN;
    bool any = false;
    for (int i = 0; i < count; i++)
        any |= answer(self, &values[i]);
    return leave(any ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED);
}
