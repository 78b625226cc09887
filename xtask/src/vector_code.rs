//! A look at the machine code of the release build.

use std::process::Command;

use crate::Result;
use crate::steps;

/// Refuses masked stores of vectors in the command `pavlov` of the release build.
///
/// LLVM makes them of a conditional pass over memory in place, such as `*x = if *x < 0.0 { 0.0 } else { *x }`, for AVX2. AMD's
/// processors take 12 cycles for each; relu by them took a tenth of the time of DQN.
pub(crate) fn no_masked_stores() -> Result<()> {
    if !cfg!(target_arch = "x86_64") {
        return Ok(());
    }
    let pavlov = steps::built("release", "pavlov")?;
    let code = steps::output_of(Command::new("objdump").args(["-d", "--no-show-raw-insn"]).arg(&pavlov))?;
    let mut function = "";
    let mut found = Vec::new();
    for line in code.lines() {
        if line.ends_with(">:") {
            function = line;
        } else if is_masked_store(line) {
            found.push(format!("{function} {}", line.trim()));
        }
    }
    if found.is_empty() { Ok(()) } else { Err(format!("masked stores of vectors:\n{}", found.join("\n"))) }
}

/// Whether a line of `objdump` is a masked store: the first operand is a register, and the last one memory.
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
