//! Short names of types, for error messages.

const WRAPPERS: &str = concat!(env!("CARGO_CRATE_NAME"), "::wrappers::");

/// Returns the name of a type without its path and parameters, such as `Corridor`. For a wrapper it is the name of the
/// innermost environment: the inner type is the first parameter of every wrapper.
pub(crate) fn short_type_name<T: ?Sized>() -> String {
    let mut name = std::any::type_name::<T>();
    while let Some((_, inner)) = name.split_once('<').filter(|(outer, _)| outer.starts_with(WRAPPERS)) {
        name = inner;
    }
    let name = name.split(['<', '>', ',']).next().unwrap_or(name);
    name.rsplit("::").next().unwrap_or(name).to_owned()
}
