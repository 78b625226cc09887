// Prints steps per second of `mj_step` alone, with random controls: `mj_step MODEL.xml FRAME_SKIP STEPS_OF_AN_EPISODE SECONDS`.
//
// `compare.py` compiles it against the headers of Python's `mujoco`. Seconds are processor time.

#include <mujoco/mujoco.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double processor_time(void) {
  struct timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int main(int count, char** arguments) {
  char error[500];
  mjModel* model = count == 5 ? mj_loadXML(arguments[1], NULL, error, sizeof error) : NULL;
  if (!model) {
    return 1;
  }
  int frame_skip = atoi(arguments[2]), length = atoi(arguments[3]);
  double seconds = atof(arguments[4]), start = processor_time(), elapsed = 0;
  mjData* data = mj_makeData(model);
  long steps = 0;
  while (elapsed < seconds) {
    mj_resetData(model, data);
    for (int step = 0; step < length; step++) {
      for (int i = 0; i < model->nu; i++) {
        const mjtNum* range = model->actuator_ctrlrange + 2 * i;
        data->ctrl[i] = range[0] + (range[1] - range[0]) * rand() / RAND_MAX;
      }
      for (int frame = 0; frame < frame_skip; frame++) {
        mj_step(model, data);
      }
    }
    steps += length;
    elapsed = processor_time() - start;
  }
  printf("%f\n", (double)steps / elapsed);
}
