//! What a newcomer of the second hour gets wrong is refused, or named in one line.

mod doctor;
mod mistakes;
mod traps;
