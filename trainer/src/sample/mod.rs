//! From environments to rows: acting, sampling, filters, evaluation, and the worker that does all of it on request.

pub(crate) mod agent_copies;
pub(crate) mod agent_evaluation;
pub(crate) mod callbacks;
pub(crate) mod complete_episodes;
pub(crate) mod counting;
pub(crate) mod evaluation;
pub(crate) mod export;
pub(crate) mod filter;
pub(crate) mod follower;
pub(crate) mod fragment;
pub(crate) mod gather;
pub(crate) mod masks;
pub(crate) mod memory;
pub(crate) mod multi_agent;
pub(crate) mod nstep;
pub(crate) mod pilot;
pub(crate) mod roster;
pub(crate) mod sampler;
pub(crate) mod seats;
pub(crate) mod session;
pub(crate) mod source;
pub(crate) mod spec_by_name;
pub(crate) mod steps;
pub(crate) mod transforms;
pub(crate) mod worker;
