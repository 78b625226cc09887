//! `when`: a step that a setting turns on or off.

use pavlov_learn::base::Result;

/// Returns a step that runs `step` if `condition` holds, and otherwise passes items on unchanged.
pub fn when<T>(
    condition: bool,
    mut step: impl FnMut(T) -> Result<T> + Send,
) -> impl FnMut(T) -> Result<T> + Send {
    move |item| if condition { step(item) } else { Ok(item) }
}
