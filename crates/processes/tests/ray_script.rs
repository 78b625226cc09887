//! What the script between a run and Ray does with files, folders and variables. It needs a Python, and no Ray.

use std::io::Write;
use std::process::Command;

/// Runs tests of `ray_script.py`.
#[track_caller]
fn pass(names: &[&str]) {
    let python = std::env::var("PAVLOV_TEST_PYTHON").unwrap_or_else(|_| "python3".into());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ray_script.py");
    let Ok(output) = Command::new(python).arg("-B").arg(script).args(names).output() else {
        // Not captured.
        let _ = std::io::stderr().write_all(b"skipped: there is no python3\n");
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains(&format!("Ran {} test", names.len())), "{said}");
}

#[test]
fn the_executable_is_written_once_into_a_folder_of_the_users_own() {
    pass(&["Executable.test_written_once"]);
}

#[test]
fn an_executable_that_is_cut_changed_open_to_others_or_a_link_is_replaced_and_not_run() {
    pass(&["Executable.test_replaced"]);
}

#[test]
fn a_folder_for_executables_that_is_a_link_or_anothers_or_open_to_others_is_refused() {
    pass(&[
        "Executable.test_folder_is_a_link",
        "Executable.test_folder_is_open",
        "Executable.test_folder_is_a_strangers",
    ]);
}

#[test]
fn the_cluster_of_a_run_lies_in_a_folder_that_no_other_user_can_enter() {
    pass(&["Cluster.test_folder_is_closed"]);
}

#[test]
fn folders_of_engines_that_were_killed_are_removed_and_a_pipe_or_link_of_such_a_name_is_let_alone() {
    pass(&["Cluster.test_left_over"]);
}

#[test]
fn the_variables_of_a_run_that_may_be_secrets_are_sent_to_no_other_machine() {
    pass(&["Environment.test_secrets_stay"]);
}

#[test]
fn ray_is_told_to_start_no_cluster_by_itself_before_it_is_imported() {
    pass(&["Cluster.test_no_second_cluster"]);
}
