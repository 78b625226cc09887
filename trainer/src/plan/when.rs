//! `when`: a step that a setting switches on.

use crate::base::Result;

/// Takes the step if `condition` holds; else items go on as they are.
pub fn when<T>(
    condition: bool,
    mut step: impl FnMut(T) -> Result<T> + Send,
) -> impl FnMut(T) -> Result<T> + Send {
    move |item| if condition { step(item) } else { Ok(item) }
}
