//! What this crate promises, in one program.

#[path = "tests/broken.rs"]
mod broken;
#[path = "tests/creators.rs"]
mod creators;
#[path = "tests/fixture.rs"]
mod fixture;
#[path = "tests/frames.rs"]
mod frames;
#[path = "tests/golden.rs"]
mod golden;
#[path = "tests/live_pettingzoo.rs"]
mod live_pettingzoo;
#[path = "tests/multi_agent.rs"]
mod multi_agent;
#[path = "tests/multi_agent_golden.rs"]
mod multi_agent_golden;
#[path = "tests/spaces.rs"]
mod spaces;
#[path = "tests/vectors.rs"]
mod vectors;
