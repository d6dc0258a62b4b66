/* Load through librdkafka without an interpreter in the way. Built and run by tests/bench/c_load.py.
 *
 * load produce   LIBRARY TOPIC PARTITIONS SIZE COUNT key=value...
 * load consume   LIBRARY TOPIC PARTITIONS SIZE COUNT key=value...
 * load latency   LIBRARY TOPIC PARTITIONS SIZE COUNT key=value...   rate=N records a second; the rest is librdkafka's
 *
 * It prints one line: seconds and records since it was connected, CPU seconds of this process; for latency also the times from produce() to the
 * consumer in microseconds, sorted. The library is the one inside the confluent-kafka wheel, so there is no header: what is
 * used of its interface is declared here.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

typedef struct {
  int err;
  void *topic;
  int32_t partition;
  void *payload;
  size_t size;
  void *key;
  size_t key_size;
  int64_t offset;
  void *opaque;
} message;

enum { PRODUCER = 0, CONSUMER = 1, COPY = 2, QUEUE_FULL = -184, PARTITION_EOF = -191 };

static void *library;
static void *(*conf_new)(void);
static int (*conf_set)(void *, const char *, const char *, char *, size_t);
static void (*conf_set_dr)(void *, void (*)(void *, const message *, void *));
static void *(*client_new)(int, void *, char *, size_t);
static int (*client_poll)(void *, int);
static int (*client_flush)(void *, int);
static void *(*topic_new)(void *, const char *, void *);
static int (*produce)(void *, int32_t, int, void *, size_t, const void *, size_t, void *);
static int (*last_error)(void);
static void *(*list_new)(int);
static void *(*list_add)(void *, const char *, int32_t);
static int (*list_set_offset)(void *, const char *, int32_t, int64_t);
static int (*assign)(void *, const void *);
static void *(*consumer_queue)(void *);
static ssize_t (*consume_batch)(void *, int, message **, size_t);
static void (*message_destroy)(message *);

static const char *topic;
static int partitions, size, options_count;
static long count, failed, delivered, rate = 1000;
static char **options;
static volatile int ready;
static double *latencies;
static long seen, uncounted;
static double begun;

static void fail(const char *what) {
  fprintf(stderr, "load: %s\n", what);
  exit(1);
}

static void *symbol(const char *name) {
  void *found = dlsym(library, name);
  if (!found) fail(name);
  return found;
}

static double now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return at.tv_sec + at.tv_nsec / 1e9;
}

static void on_delivery(void *client, const message *done, void *opaque) {
  (void)client, (void)opaque;
  if (done->err) failed++;
  delivered++;
}

static void *client(int kind) {
  char text[512];
  void *conf = conf_new();
  for (int i = 0; i < options_count; i++) {
    char *name = strdup(options[i]), *value = strchr(name, '=');
    if (!value) fail("an option is key=value");
    *value++ = 0;
    if (!strcmp(name, "rate")) {
      rate = atol(value);
      continue;
    }
    /* p.key is for the producer alone, c.key for the consumer */
    if (name[1] == '.') {
      if ((name[0] == 'p') != (kind == PRODUCER)) continue;
      name += 2;
    }
    if (conf_set(conf, name, value, text, sizeof text)) fail(text);
  }
  if (kind == PRODUCER) conf_set_dr(conf, on_delivery);
  void *made = client_new(kind, conf, text, sizeof text);
  if (!made) fail(text);
  return made;
}

static void send_one(void *producer, void *to, void *payload, long number) {
  while (produce(to, number % partitions, COPY, payload, size, NULL, 0, NULL)) {
    if (last_error() != QUEUE_FULL) fail("produce failed");
    client_poll(producer, 1);
  }
}

static void finish(void *producer) {
  if (client_flush(producer, 120000) || failed || delivered != count) fail("not every record was acknowledged");
}

static void do_produce(void) {
  void *producer = client(PRODUCER), *to = topic_new(producer, topic, NULL);
  char *payload = malloc(size);
  for (int i = 0; i < size; i++) payload[i] = (char)rand();
  for (int i = 0; i < partitions; i++) send_one(producer, to, payload, i); /* connect first */
  if (client_flush(producer, 60000)) fail("the first record was not acknowledged");
  begun = now();
  uncounted = partitions;
  count += partitions;
  for (long i = partitions; i < count; i++) {
    send_one(producer, to, payload, i);
    if (i % 1000 == 0) client_poll(producer, 0);
  }
  finish(producer);
}

static void *consumer_at(int64_t offset) {
  void *consumer = client(CONSUMER), *list = list_new(partitions);
  for (int i = 0; i < partitions; i++) {
    list_add(list, topic, i);
    list_set_offset(list, topic, i, offset);
  }
  if (assign(consumer, list)) fail("assign failed");
  return consumer;
}

static void *do_consume(void *latency) {
  static message *batch[10000];
  void *consumer = consumer_at(latency ? -1 : 0), *queue = consumer_queue(consumer);
  double heard = now();
  while (seen < count) {
    ssize_t found = consume_batch(queue, latency ? 1 : 1000, batch, latency ? 64 : 10000);
    double at = now();
    if (found > 0) heard = at;
    if (found > 0 && !seen && !latency) begun = at, uncounted = found; /* before that it connects */
    if (at - heard > 60) fail("nothing to read for 60 s");
    for (ssize_t i = 0; i < found; i++) {
      double sent;
      if (!batch[i]->err && !latency) seen++;
      if (!batch[i]->err && latency) {
        memcpy(&sent, batch[i]->payload, sizeof sent);
        if (sent < 0) ready = 1; /* a probe: the consumer follows */
        else latencies[seen++] = at - sent;
      }
      message_destroy(batch[i]);
    }
  }
  return NULL;
}

static void do_latency(void) {
  pthread_t thread;
  latencies = calloc(count, sizeof *latencies);
  void *producer = client(PRODUCER), *to = topic_new(producer, topic, NULL);
  double *payload = calloc(1, size + sizeof *payload);
  long probes = 0;
  prctl(PR_SET_TIMERSLACK, 1000);
  pthread_create(&thread, NULL, do_consume, latencies);
  for (begun = now(); !ready; probes++) {
    if (now() - begun > 60) fail("the consumer does not follow");
    *payload = -1;
    send_one(producer, to, payload, probes % partitions);
    client_poll(producer, 50);
  }
  begun = now();
  for (long i = 0; i < count; i++) {
    double due = begun + (double)i / rate, wait = due - now();
    if (wait > 0) {
      struct timespec pause = {(time_t)wait, (long)((wait - (time_t)wait) * 1e9)};
      nanosleep(&pause, NULL);
    }
    *payload = due; /* when it should have been sent: a stalled producer does not hide the stall */
    send_one(producer, to, payload, i);
    client_poll(producer, 0);
  }
  count += probes;
  finish(producer);
  count -= probes;
  pthread_join(thread, NULL);
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int argc, char **argv) {
  if (argc < 7) fail("produce|consume|latency LIBRARY TOPIC PARTITIONS SIZE COUNT key=value...");
  library = dlopen(argv[2], RTLD_NOW);
  if (!library) fail(dlerror());
  topic = argv[3], partitions = atoi(argv[4]), size = atoi(argv[5]), count = atol(argv[6]);
  options = argv + 7, options_count = argc - 7;
  *(void **)&conf_new = symbol("rd_kafka_conf_new");
  *(void **)&conf_set = symbol("rd_kafka_conf_set");
  *(void **)&conf_set_dr = symbol("rd_kafka_conf_set_dr_msg_cb");
  *(void **)&client_new = symbol("rd_kafka_new");
  *(void **)&client_poll = symbol("rd_kafka_poll");
  *(void **)&client_flush = symbol("rd_kafka_flush");
  *(void **)&topic_new = symbol("rd_kafka_topic_new");
  *(void **)&produce = symbol("rd_kafka_produce");
  *(void **)&last_error = symbol("rd_kafka_last_error");
  *(void **)&list_new = symbol("rd_kafka_topic_partition_list_new");
  *(void **)&list_add = symbol("rd_kafka_topic_partition_list_add");
  *(void **)&list_set_offset = symbol("rd_kafka_topic_partition_list_set_offset");
  *(void **)&assign = symbol("rd_kafka_assign");
  *(void **)&consumer_queue = symbol("rd_kafka_queue_get_consumer");
  *(void **)&consume_batch = symbol("rd_kafka_consume_batch_queue");
  *(void **)&message_destroy = symbol("rd_kafka_message_destroy");
  begun = now();
  if (!strcmp(argv[1], "produce")) do_produce();
  else if (!strcmp(argv[1], "consume")) do_consume(NULL);
  else if (!strcmp(argv[1], "latency")) do_latency();
  else fail("produce, consume or latency");
  double seconds = now() - begun;
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  double cpu = used.ru_utime.tv_sec + used.ru_stime.tv_sec + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
  printf("%.6f %ld %.6f", seconds, (latencies || seen ? seen : delivered) - uncounted, cpu);
  if (latencies) {
    qsort(latencies, seen, sizeof *latencies, by_value);
    for (long i = 0; i < seen; i++) printf(" %.0f", latencies[i] * 1e6);
  }
  printf("\n");
  fflush(stdout);
  _Exit(0); /* nothing is worth waiting for */
}
