//! Shapes of a model in their places, for pictures.

use std::{ffi::c_int, ptr};

use super::{library, raw::Raw};

/// `mjSTAGE_POS`: places are computed, velocities are not.
const STAGE_POSITION: c_int = 1;

/// The shapes of a model, and a simulation that puts them in their places.
pub(super) struct Shapes {
    raw: Raw,
    /// `mjtGeom` of each.
    pub(super) kinds: Vec<i32>,
    /// `[shapes, 3]`.
    pub(super) sizes: Vec<f64>,
    /// `[shapes, 4]`.
    pub(super) colors: Vec<f32>,
}

// SAFETY: as for `Batch`.
#[allow(unsafe_code)]
unsafe impl Send for Shapes {}

/// Positions and turns of the shapes, and positions of the bodies, `[n, 3]` or `[n, 9]`.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) positions: Vec<f64>,
    pub(super) turns: Vec<f64>,
    pub(super) bodies: Vec<f64>,
}

#[allow(unsafe_code)]
impl Shapes {
    /// `raw` is kept, for the places; `questions` is another simulation of the model, for what is constant.
    pub(super) fn new(raw: Raw, questions: &Raw) -> Result<Self, String> {
        Ok(Self {
            kinds: questions.constant(c"geom_type")?,
            sizes: questions.constant(c"geom_size")?,
            colors: questions.constant(c"geom_rgba")?,
            raw,
        })
    }

    /// Where everything is in a row of `Batch::state`.
    pub(super) fn places(&mut self, state: &[f64]) -> Result<Places, String> {
        let functions = &self.raw.library.functions;
        // Asked for beforehand, so that the next call writes them.
        self.read()?;
        // SAFETY: the simulation has a row of state of this width, since it is one of the same model.
        let failed = unsafe {
            ptr::copy_nonoverlapping(state.as_ptr(), (functions.state_rows)(self.raw.pointer), state.len());
            (functions.batch_forward)(self.raw.pointer, ptr::null(), 1, STAGE_POSITION)
        };
        if failed != 0 {
            // SAFETY: the message belongs to the batch and ends with a zero.
            return Err(unsafe { library::text((functions.error)(self.raw.pointer, 0)) });
        }
        self.read()
    }

    fn read(&self) -> Result<Places, String> {
        let array = |name| self.raw.output(name);
        Ok(Places { positions: array(c"geom_xpos")?, turns: array(c"geom_xmat")?, bodies: array(c"xpos")? })
    }
}

impl std::fmt::Debug for Shapes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shapes").field("kinds", &self.kinds).finish_non_exhaustive()
    }
}
