//! The arithmetic of the parts against numbers worked out elsewhere: golden values, hand arithmetic, other formulas.

mod convolutions;
mod ddpg;
mod distributions;
mod dqn;
mod engines;
mod exploration;
mod filters;
mod gradients;
mod groups;
mod hindsight;
mod normalised;
mod optimizers;
mod peers;
mod ppo;
mod qmix;
mod recurrent;
mod replay;
mod returns;
mod sac;
mod sde;
mod seam;
mod statistics;
mod values;
mod vtrace;
