/* A stand-in for libnvidia-ml.so.1: answers from the text file that FAKE_NVML names.
 *
 *   init CODE                    what nvmlInit returns
 *   device NAME                  begins a GPU; "mig NAME" a slice of the last GPU
 *   KEY VALUE                    a fact of the last device; "KEY !CODE" makes its query fail with that code
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 16
typedef unsigned long long u64;
typedef struct { char key[32]; char value[64]; } Fact;
typedef struct Device { char name[96]; Fact facts[32]; int n_facts; struct Device *slices[MOST]; int n_slices; } Device;

static Device devices[MOST];
static Device slices[MOST];
static int n_devices, n_slices, init_code;

static void read_table(void) {
    n_devices = n_slices = init_code = 0;
    memset(devices, 0, sizeof devices);
    memset(slices, 0, sizeof slices);
    FILE *file = fopen(getenv("FAKE_NVML") ? getenv("FAKE_NVML") : "", "r");
    if (!file) { init_code = 9; return; }
    char line[256];
    Device *last = 0;
    while (fgets(line, sizeof line, file)) {
        char key[32], value[128] = "";
        if (sscanf(line, "%31s %127[^\n]", key, value) < 1) continue;
        if (!strcmp(key, "init")) init_code = atoi(value);
        else if (!strcmp(key, "device")) { last = &devices[n_devices++]; snprintf(last->name, 96, "%s", value); }
        else if (!strcmp(key, "mig")) {
            Device *owner = &devices[n_devices - 1];
            last = &slices[n_slices++];
            snprintf(last->name, 96, "%s", value);
            owner->slices[owner->n_slices++] = last;
        } else if (last) {
            Fact *fact = &last->facts[last->n_facts++];
            snprintf(fact->key, 32, "%s", key);
            snprintf(fact->value, 64, "%s", value);
        }
    }
    fclose(file);
}

/* Value of a fact; 3 (NOT_SUPPORTED) where it is absent, its own code where it starts with "!". */
static int ask(Device *device, const char *key, const char **value) {
    for (int i = 0; i < device->n_facts; i++)
        if (!strcmp(device->facts[i].key, key)) {
            *value = device->facts[i].value;
            return **value == '!' ? atoi(*value + 1) : 0;
        }
    return 3;
}
static int number(Device *device, const char *key, u64 *out) {
    const char *value;
    int code = ask(device, key, &value);
    if (!code) *out = strtoull(value, 0, 10);
    return code;
}
static int small(Device *device, const char *key, unsigned *out) {
    u64 value;
    int code = number(device, key, &value);
    if (!code) *out = (unsigned)value;
    return code;
}

int nvmlInitWithFlags(unsigned flags) { (void)flags; read_table(); return init_code; }
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { return code == 18 ? "Driver/library version mismatch" : "fake error"; }
int nvmlSystemGetDriverVersion(char *out, unsigned n) { snprintf(out, n, "580.00"); return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = n_devices; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, Device **out) {
    *out = &devices[i];
    const char *value;
    int code = ask(*out, "handle", &value);
    return code == 3 ? 0 : code;
}
int nvmlDeviceGetName(Device *d, char *out, unsigned n) { snprintf(out, n, "%s", d->name); return 0; }
int nvmlDeviceGetUUID(Device *d, char *out, unsigned n) {
    const char *value;
    int code = ask(d, "uuid", &value);
    if (!code) snprintf(out, n, "%s", value);
    return code;
}
typedef struct { unsigned version; u64 total, reserved, free, used; } Memory2;
typedef struct { u64 total, free, used; } Memory1;
int nvmlDeviceGetMemoryInfo_v2(Device *d, Memory2 *m) {
    int code = number(d, "total", &m->total);
    if (!code) code = number(d, "free", &m->free);
    m->used = m->total - m->free;
    return code;
}
int nvmlDeviceGetMemoryInfo(Device *d, Memory1 *m) {
    int code = number(d, "total", &m->total);
    if (!code) code = number(d, "free", &m->free);
    m->used = m->total - m->free;
    return code;
}
int nvmlDeviceGetMemoryBusWidth(Device *d, unsigned *out) { return small(d, "bus", out); }
int nvmlDeviceGetMaxClockInfo(Device *d, int kind, unsigned *out) { return small(d, kind == 2 ? "memory_clock" : "sm_clock", out); }
int nvmlDeviceGetNumGpuCores(Device *d, unsigned *out) { return small(d, "cores", out); }
int nvmlDeviceGetEnforcedPowerLimit(Device *d, unsigned *out) { return small(d, "power_mw", out); }
int nvmlDeviceGetDisplayActive(Device *d, unsigned *out) { return small(d, "display", out); }
int nvmlDeviceGetNvLinkState(Device *d, unsigned link, unsigned *out) {
    unsigned links = 0;
    int code = small(d, "nvlinks", &links);
    *out = link < links;
    return code;
}
int nvmlDeviceGetCudaComputeCapability(Device *d, int *major, int *minor) {
    const char *value;
    int code = ask(d, "capability", &value);
    if (!code) sscanf(value, "%d.%d", major, minor);
    return code;
}
int nvmlDeviceGetMigMode(Device *d, unsigned *now, unsigned *next) {
    if (!d->n_slices) return 3;
    *now = *next = 1;
    return 0;
}
int nvmlDeviceGetMaxMigDeviceCount(Device *d, unsigned *out) { *out = d->n_slices ? 7 : 0; return 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(Device *d, unsigned i, Device **out) {
    if ((int)i >= d->n_slices) return 6;
    *out = d->slices[i];
    return 0;
}
typedef struct { unsigned multiprocessors, shared[5], gpu_slices, compute_slices; u64 memory_mb; } Attributes;
int nvmlDeviceGetAttributes_v2(Device *d, Attributes *a) {
    memset(a, 0, sizeof *a);
    return small(d, "gpu_slices", &a->gpu_slices);
}
typedef struct { unsigned pid; u64 bytes; unsigned gpu, compute; } Process;
int nvmlDeviceGetComputeRunningProcesses_v3(Device *d, unsigned *n, Process *out) {
    u64 bytes;
    if (number(d, "busy_bytes", &bytes)) { *n = 0; return 0; }
    if (!out) { *n = 1; return 7; }
    *n = 1;
    out[0].pid = 4242;
    out[0].bytes = bytes;
    return 0;
}
