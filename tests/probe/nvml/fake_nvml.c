/* A stand-in for NVIDIA's driver library (libnvidia-ml.so.1) that says what a script tells it to.
 *
 * FAKE_NVML names the script, with one statement a line:
 *
 *   gpus COUNT                             GPUs of the machine (default 1)
 *   init CODE                              what initialization returns
 *   answer GPU FUNCTION CODE               what a function returns for a GPU, or for all of them where GPU is -1
 *   lost GPU SAMPLE                        from its sample with this number on (from 0), the GPU is lost
 *   mig GPU COUNT                          the GPU is divided into so many instances
 *   process GPU PID                        a process runs on the GPU
 *   nvlink A B                             two GPUs are connected by NVLink
 *   sample GPU UTIL MEMORY_MIB POWER_MW ENERGY_MJ CLOCK_MHZ SENT RECEIVED REASONS SM TENSOR DRAM
 *                                          the GPU's state at one sample; the last one stays
 *
 * A GPU goes on to its next sample each time that its utilization is asked for. Structures and codes are those of
 * nvml.h, as nvidia-ml-py declares them.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_GPUS = 8, MOST_SAMPLES = 64, MOST_RULES = 64, MOST_INSTANCES = 4 };
enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
       GPU_IS_LOST = 15, VERSION_MISMATCH = 25 };
enum { PCIE_SENT = 197, PCIE_RECEIVED = 198, UNSIGNED_INT = 1, UNSIGNED_LONG_LONG = 3 };
enum { SM = 2, TENSOR = 5, DRAM = 10 };

struct sample {
  unsigned util, power, clock;
  unsigned long long memory, energy, sent, received, reasons;
  double sm, tensor, dram;
};

struct gpu {
  struct sample samples[MOST_SAMPLES];
  int samples_told, now, lost_from, instances, processes;
  unsigned pids[MOST_GPUS];
};

struct device { int gpu, instance; }; /* instance is -1 for the whole GPU */
struct rule { int gpu, code; char function[64]; };

static struct gpu gpus[MOST_GPUS];
static struct device whole[MOST_GPUS], parts[MOST_GPUS][MOST_INSTANCES];
static struct rule rules[MOST_RULES];
static int linked[MOST_GPUS][MOST_GPUS];
static int gpu_count = 1, rule_count, initialized, init_code;

static void take(const char *line) {
  struct sample told;
  struct rule rule;
  int gpu, number;
  unsigned pid;
  if (sscanf(line, "gpus %d", &number) == 1) gpu_count = number;
  else if (sscanf(line, "init %d", &number) == 1) init_code = number;
  else if (sscanf(line, "answer %d %63s %d", &rule.gpu, rule.function, &rule.code) == 3) rules[rule_count++] = rule;
  else if (sscanf(line, "lost %d %d", &gpu, &number) == 2) gpus[gpu].lost_from = number;
  else if (sscanf(line, "mig %d %d", &gpu, &number) == 2) gpus[gpu].instances = number;
  else if (sscanf(line, "process %d %u", &gpu, &pid) == 2) gpus[gpu].pids[gpus[gpu].processes++] = pid;
  else if (sscanf(line, "nvlink %d %d", &gpu, &number) == 2) linked[gpu][number] = linked[number][gpu] = 1;
  else if (sscanf(line, "sample %d %u %llu %u %llu %u %llu %llu %llx %lf %lf %lf", &gpu, &told.util, &told.memory,
                  &told.power, &told.energy, &told.clock, &told.sent, &told.received, &told.reasons, &told.sm,
                  &told.tensor, &told.dram) == 12)
    gpus[gpu].samples[gpus[gpu].samples_told++] = told;
}

static const struct sample *state(const struct device *device) {
  struct gpu *gpu = &gpus[device->gpu];
  int last = gpu->samples_told ? gpu->samples_told - 1 : 0, now = gpu->now < 0 ? 0 : gpu->now;
  return &gpu->samples[now < last ? now : last];
}

static int refused(const char *function, const struct device *device) {
  if (!initialized) return UNINITIALIZED;
  if (!device) return INVALID_ARGUMENT;
  if (gpus[device->gpu].now >= gpus[device->gpu].lost_from) return GPU_IS_LOST;
  for (int i = 0; i < rule_count; i++)
    if ((rules[i].gpu < 0 || rules[i].gpu == device->gpu) && !strcmp(rules[i].function, function)) return rules[i].code;
  return SUCCESS;
}

#define REQUIRE(device)                            \
  do {                                             \
    int code = refused(__func__, device);          \
    if (code) return code;                         \
  } while (0)
#define REQUIRE_WHOLE(device)                      \
  do {                                             \
    REQUIRE(device);                               \
    if ((device)->instance >= 0) return NOT_SUPPORTED; \
  } while (0)

int nvmlInitWithFlags(unsigned flags) {
  char line[256];
  const char *path = getenv("FAKE_NVML");
  FILE *script = path ? fopen(path, "r") : NULL;
  (void)flags;
  for (int i = 0; i < MOST_GPUS; i++) {
    gpus[i] = (struct gpu){.now = -1, .lost_from = MOST_SAMPLES + 1};
    whole[i] = (struct device){i, -1};
    for (int j = 0; j < MOST_INSTANCES; j++) parts[i][j] = (struct device){i, j};
  }
  rule_count = 0;
  while (script && fgets(line, sizeof line, script)) take(line);
  if (script) fclose(script);
  initialized = init_code == SUCCESS;
  return init_code;
}

int nvmlShutdown(void) {
  initialized = 0;
  return SUCCESS;
}

const char *nvmlErrorString(int code) {
  (void)code;
  return "an error of the stand-in";
}

int nvmlSystemGetDriverVersion(char *text, unsigned length) {
  snprintf(text, length, "580.00.01");
  return SUCCESS;
}

int nvmlSystemGetCudaDriverVersion_v2(int *version) {
  *version = 13000;
  return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
  if (!initialized) return UNINITIALIZED;
  *count = (unsigned)gpu_count;
  return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct device **device) {
  if (index >= (unsigned)gpu_count) return INVALID_ARGUMENT;
  *device = &whole[index];
  for (int i = 0; i < rule_count; i++)
    if (rules[i].gpu == (int)index && !strcmp(rules[i].function, __func__)) return rules[i].code;
  return SUCCESS;
}

int nvmlDeviceGetName(const struct device *device, char *text, unsigned length) {
  REQUIRE(device);
  snprintf(text, length, device->instance < 0 ? "NVIDIA H100 80GB HBM3" : "NVIDIA H100 80GB HBM3 MIG 1g.10gb");
  return SUCCESS;
}

int nvmlDeviceGetUUID(const struct device *device, char *text, unsigned length) {
  REQUIRE(device);
  if (device->instance < 0) snprintf(text, length, "GPU-%08x-0000-0000-0000-000000000000", device->gpu);
  else snprintf(text, length, "MIG-%08x-0000-0000-0000-%012x", device->gpu, device->instance);
  return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(const struct device *device, unsigned *rates) {
  if (device && device->instance < 0) gpus[device->gpu].now++;
  REQUIRE_WHOLE(device);
  rates[0] = state(device)->util;
  rates[1] = 0;
  return SUCCESS;
}

struct memory { unsigned long long total, free, used; };
struct memory_v2 { unsigned version; unsigned long long total, reserved, free, used; };

int nvmlDeviceGetMemoryInfo(const struct device *device, struct memory *memory) {
  REQUIRE(device);
  *memory = (struct memory){80ull << 30, 0, (state(device)->memory << 20) + (512ull << 20)};
  return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(const struct device *device, struct memory_v2 *memory) {
  REQUIRE(device);
  if (memory->version != 0x02000028) return VERSION_MISMATCH;
  memory->total = 80ull << 30;
  memory->reserved = 512ull << 20;
  memory->used = state(device)->memory << 20;
  return SUCCESS;
}

int nvmlDeviceGetPowerUsage(const struct device *device, unsigned *milliwatts) {
  REQUIRE_WHOLE(device);
  *milliwatts = state(device)->power;
  return SUCCESS;
}

int nvmlDeviceGetEnforcedPowerLimit(const struct device *device, unsigned *milliwatts) {
  REQUIRE_WHOLE(device);
  *milliwatts = 700000;
  return SUCCESS;
}

int nvmlDeviceGetTotalEnergyConsumption(const struct device *device, unsigned long long *millijoules) {
  REQUIRE_WHOLE(device);
  *millijoules = state(device)->energy;
  return SUCCESS;
}

int nvmlDeviceGetClockInfo(const struct device *device, int type, unsigned *megahertz) {
  (void)type;
  REQUIRE_WHOLE(device);
  *megahertz = state(device)->clock;
  return SUCCESS;
}

int nvmlDeviceGetMaxClockInfo(const struct device *device, int type, unsigned *megahertz) {
  (void)type;
  REQUIRE_WHOLE(device);
  *megahertz = 1980;
  return SUCCESS;
}

int nvmlDeviceGetCurrentClocksEventReasons(const struct device *device, unsigned long long *reasons) {
  REQUIRE_WHOLE(device);
  *reasons = state(device)->reasons;
  return SUCCESS;
}

struct field {
  unsigned field, scope;
  long long timestamp, latency;
  int type, code;
  union { unsigned u; unsigned long long ull; } value;
};

int nvmlDeviceGetFieldValues(const struct device *device, int count, struct field *fields) {
  REQUIRE_WHOLE(device);
  for (int i = 0; i < count; i++) {
    int known = fields[i].field == PCIE_SENT || fields[i].field == PCIE_RECEIVED;
    fields[i].code = known ? SUCCESS : NOT_SUPPORTED;
    fields[i].type = fields[i].field == PCIE_SENT ? UNSIGNED_LONG_LONG : UNSIGNED_INT;
    if (fields[i].field == PCIE_SENT) fields[i].value.ull = state(device)->sent;
    else fields[i].value.u = (unsigned)state(device)->received;
  }
  return SUCCESS;
}

struct process { unsigned pid; unsigned long long memory; unsigned instance, compute_instance; };

int nvmlDeviceGetComputeRunningProcesses_v3(const struct device *device, unsigned *count, struct process *found) {
  unsigned room = *count;
  REQUIRE(device);
  *count = (unsigned)gpus[device->gpu].processes;
  if (*count > room || (*count && !found)) return INSUFFICIENT_SIZE;
  for (unsigned i = 0; i < *count; i++) found[i] = (struct process){gpus[device->gpu].pids[i], 1ull << 30, 0, 0};
  return SUCCESS;
}

int nvmlDeviceGetMigMode(const struct device *device, unsigned *current, unsigned *pending) {
  REQUIRE(device);
  *current = *pending = gpus[device->gpu].instances > 0;
  return SUCCESS;
}

int nvmlDeviceGetMaxMigDeviceCount(const struct device *device, unsigned *count) {
  REQUIRE(device);
  *count = MOST_INSTANCES;
  return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(const struct device *device, unsigned index, struct device **instance) {
  REQUIRE(device);
  if (index >= (unsigned)gpus[device->gpu].instances) return NOT_FOUND;
  *instance = &parts[device->gpu][index];
  return SUCCESS;
}

int nvmlDeviceGetGpuInstanceId(const struct device *device, unsigned *instance) {
  REQUIRE(device);
  *instance = (unsigned)device->instance;
  return SUCCESS;
}

int nvmlDeviceGetTopologyCommonAncestor(const struct device *one, const struct device *other, int *level) {
  REQUIRE(one);
  REQUIRE(other);
  *level = 40;
  return SUCCESS;
}

int nvmlDeviceGetP2PStatus(const struct device *one, const struct device *other, int index, int *status) {
  REQUIRE(one);
  REQUIRE(other);
  *status = index == 2 && linked[one->gpu][other->gpu] ? 0 : 5;
  return SUCCESS;
}

int nvmlDeviceGetCurrPcieLinkGeneration(const struct device *device, unsigned *generation) {
  REQUIRE_WHOLE(device);
  *generation = 5;
  return SUCCESS;
}

int nvmlDeviceGetMaxPcieLinkGeneration(const struct device *device, unsigned *generation) {
  REQUIRE_WHOLE(device);
  *generation = 5;
  return SUCCESS;
}

int nvmlDeviceGetCurrPcieLinkWidth(const struct device *device, unsigned *lanes) {
  REQUIRE_WHOLE(device);
  *lanes = device->gpu == 0 ? 16 : 8;
  return SUCCESS;
}

int nvmlDeviceGetMaxPcieLinkWidth(const struct device *device, unsigned *lanes) {
  REQUIRE_WHOLE(device);
  *lanes = 16;
  return SUCCESS;
}

struct support { unsigned version, supported; };
struct metric { unsigned id; int code; double value; const char *short_name, *long_name, *unit; };
struct metrics { unsigned version, count; const struct sample **before, **after; struct metric metrics[]; };

int nvmlGpmQueryDeviceSupport(const struct device *device, struct support *support) {
  REQUIRE(device);
  support->supported = 1;
  return SUCCESS;
}

int nvmlGpmSampleAlloc(const struct sample ***sample) {
  *sample = calloc(1, sizeof **sample);
  return SUCCESS;
}

int nvmlGpmSampleFree(const struct sample **sample) {
  free(sample);
  return SUCCESS;
}

int nvmlGpmSampleGet(const struct device *device, const struct sample **sample) {
  REQUIRE_WHOLE(device);
  *sample = state(device);
  return SUCCESS;
}

int nvmlGpmMigSampleGet(const struct device *device, unsigned instance, const struct sample **sample) {
  (void)instance;
  REQUIRE_WHOLE(device);
  *sample = state(device);
  return SUCCESS;
}

/* Callers declare more or fewer slots for metrics than this library knows: only those that are asked for are written. */
int nvmlGpmMetricsGet(struct metrics *asked) {
  const struct sample *now;
  if (asked->version != 1) return VERSION_MISMATCH;
  if (!asked->before || !asked->after) return INVALID_ARGUMENT;
  now = *asked->after;
  for (unsigned i = 0; i < asked->count; i++) {
    struct metric *metric = &asked->metrics[i];
    metric->code = SUCCESS;
    if (metric->id == SM) metric->value = now->sm;
    else if (metric->id == TENSOR) metric->value = now->tensor;
    else if (metric->id == DRAM) metric->value = now->dram;
    else metric->code = NOT_SUPPORTED;
  }
  return SUCCESS;
}
