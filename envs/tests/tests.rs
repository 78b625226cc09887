//! What this crate promises, in one program.

#[path = "tests/agent_groups.rs"]
mod agent_groups;
#[path = "tests/agent_vectors.rs"]
mod agent_vectors;
#[path = "tests/bit_flipping.rs"]
mod bit_flipping;
#[path = "tests/box2d.rs"]
mod box2d;
#[path = "tests/broken.rs"]
mod broken;
#[path = "tests/classic_control.rs"]
mod classic_control;
#[path = "tests/classic_vectors.rs"]
mod classic_vectors;
#[path = "tests/counter.rs"]
mod counter;
#[path = "tests/creators.rs"]
mod creators;
#[path = "tests/example.rs"]
mod example;
#[path = "tests/fixture.rs"]
mod fixture;
#[path = "tests/frames.rs"]
mod frames;
#[path = "tests/go.rs"]
mod go;
#[path = "tests/golden.rs"]
mod golden;
#[path = "tests/live_gymnasium.rs"]
mod live_gymnasium;
#[path = "tests/live_pettingzoo.rs"]
mod live_pettingzoo;
#[path = "tests/minigrid.rs"]
mod minigrid;
#[path = "tests/mujoco.rs"]
mod mujoco;
#[path = "tests/mujoco_library.rs"]
mod mujoco_library;
#[path = "tests/multi_agent.rs"]
mod multi_agent;
#[path = "tests/multi_agent_golden.rs"]
mod multi_agent_golden;
#[path = "tests/particles.rs"]
mod particles;
#[path = "tests/pettingzoo.rs"]
mod pettingzoo;
#[path = "tests/pictures.rs"]
mod pictures;
#[path = "tests/pixel.rs"]
mod pixel;
#[path = "tests/pixel_pictures.rs"]
mod pixel_pictures;
#[path = "tests/py.rs"]
mod py;
#[path = "tests/py_admitted.rs"]
mod py_admitted;
#[path = "tests/py_clothes.rs"]
mod py_clothes;
#[path = "tests/py_cores.rs"]
mod py_cores;
#[path = "tests/py_faults.rs"]
mod py_faults;
#[path = "tests/py_pictures.rs"]
mod py_pictures;
#[path = "tests/reset_options.rs"]
mod reset_options;
#[path = "tests/row_wrappers.rs"]
mod row_wrappers;
#[path = "tests/rows.rs"]
mod rows;
#[path = "tests/spaces.rs"]
mod spaces;
#[path = "tests/states.rs"]
mod states;
#[path = "tests/streams.rs"]
mod streams;
#[path = "tests/teller.rs"]
mod teller;
#[path = "tests/threads.rs"]
mod threads;
#[path = "tests/thresholds.rs"]
mod thresholds;
#[path = "tests/time_and_videos.rs"]
mod time_and_videos;
#[path = "tests/toy_text.rs"]
mod toy_text;
#[path = "tests/vectors.rs"]
mod vectors;
#[path = "tests/wrappers.rs"]
mod wrappers;
#[path = "tests/wrappers_by_name.rs"]
mod wrappers_by_name;
#[path = "tests/wrapping.rs"]
mod wrapping;
