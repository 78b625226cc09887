//! Names of types in messages.

/// The name of a type without its path and parameters: `Corridor`.
pub(crate) fn short_type_name<T: ?Sized>() -> String {
    let name = std::any::type_name::<T>();
    let name = name.split('<').next().unwrap_or(name);
    name.rsplit("::").next().unwrap_or(name).to_owned()
}
