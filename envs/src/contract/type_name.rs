//! Short names of types, for error messages.

/// Beginnings of the paths of types that are called by what they hold, their first parameter.
const SHELLS: [&str; 3] = [
    concat!(env!("CARGO_CRATE_NAME"), "::wrappers::"),
    concat!(env!("CARGO_CRATE_NAME"), "::native::dynamics::NativeEnv"),
    concat!(env!("CARGO_CRATE_NAME"), "::native::classic_control::classic::Classic"),
];
/// Ends of the names of types that a [`NativeEnv`](crate::native::NativeEnv) can hold.
const HELD: [&str; 2] = ["Dynamics", "Config"];

/// Returns the name of a type without its path and parameters, such as `Corridor`. For a wrapper it is the name of the
/// innermost environment, and for a native environment that of its type alias, such as `CartPole`.
pub(crate) fn short_type_name<T: ?Sized>() -> String {
    let mut name = std::any::type_name::<T>();
    let mut is_native = false;
    while let Some((shell, inner)) = name.split_once('<').filter(|(outer, _)| is_shell(outer)) {
        is_native |= !shell.starts_with(SHELLS[0]);
        name = inner;
    }
    let name = name.split(['<', '>', ',']).next().unwrap_or(name);
    let name = name.rsplit("::").next().unwrap_or(name);
    let alias = HELD.iter().find_map(|end| name.strip_suffix(end)).filter(|_| is_native);
    alias.unwrap_or(name).to_owned()
}

fn is_shell(path: &str) -> bool {
    SHELLS.iter().any(|shell| path.starts_with(shell))
}
