//! Searches the machine code of the release build for masked stores of vectors, which are slow on AMD's processors.

use std::process::Command;

use crate::Result;
use crate::outside::COMMAND;
use crate::steps;

/// Fails if the command, built for release, has a masked store of a vector (`vmaskmovps`, `vmaskmovpd`).
///
/// For AVX2, LLVM compiles a loop that changes some numbers of an array in place, such as `*x = if *x < 0.0 { 0.0 } else { *x }`, to
/// masked stores. AMD's processors take 12 cycles for each.
pub(crate) fn no_masked_stores() -> Result<()> {
    if !cfg!(target_arch = "x86_64") {
        return Ok(());
    }
    let pavlov = steps::built("release", COMMAND)?;
    let code = steps::output_of(Command::new("objdump").args(["-d", "--no-show-raw-insn"]).arg(&pavlov))?;
    if !code.contains("vfmadd") {
        return Err(format!(
            "objdump shows no vector instruction in {}: this search would find nothing",
            pavlov.display()
        ));
    }
    let mut function = "";
    let mut found = Vec::new();
    for line in code.lines() {
        if line.ends_with(">:") {
            function = line;
        } else if is_masked_store(line) {
            found.push(format!("{function} {}", line.trim()));
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    let way_out = "decide before the store, in a variable, or write to another array";
    Err(format!("the release build has masked stores of vectors; {way_out}:\n{}", found.join("\n")))
}

/// Whether a line that `objdump` printed is a masked store of a vector: an instruction `vmaskmov` from a register to memory.
fn is_masked_store(line: &str) -> bool {
    let operands = line.split_once("vmaskmovps").or_else(|| line.split_once("vmaskmovpd"));
    operands.is_some_and(|(_, operands)| operands.trim().starts_with('%') && operands.trim().ends_with(')'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_are_told_from_loads() {
        assert!(is_masked_store("  4a12:\tvmaskmovps %ymm0,%ymm4,0x60(%rax,%r8,4)"));
        assert!(!is_masked_store("  4a12:\tvmaskmovps (%rax),%ymm4,%ymm1"));
        assert!(!is_masked_store("  4a12:\tvmovups %ymm0,(%rdi)"));
    }
}
