//! The page of Stable-Baselines3's arguments, made from the table that translates them.

use std::fmt::Write as _;

use pavlov::sb3::TABLE;
use serde_json::Value;

use super::is_written;

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// The classes that a row is of, or nothing if it is of all that have the argument.
fn of(row: &Value) -> String {
    texts(&row["of"]).join(", ")
}

fn rows(table: &Value) -> String {
    let mut page = String::new();
    for row in table.as_array().expect("rows") {
        let name = row["name"].as_str().expect("a name");
        let settings: Vec<String> = texts(&row["becomes"])
            .into_iter()
            .map(|path| format!("[`{path}`](settings.md#{})", path.replace('.', "")))
            .collect();
        let settings = settings.join(", ");
        let assigned = match row["fixed"].as_str() {
            Some(why) => format!("no: {why}"),
            None if row["only"].is_null() => "yes".into(),
            None => String::new(),
        };
        let help = row["help"].as_str().expect("help").replace('|', "\\|");
        writeln!(page, "| `{name}` | {} | {settings} | {assigned} | {help} |", of(row)).expect("text");
    }
    page
}

#[test]
fn the_page_of_arguments_says_what_the_table_says() {
    let table: Value = serde_json::from_str(TABLE).expect("JSON");
    let classes: Vec<String> = table["classes"]
        .as_array()
        .expect("classes")
        .iter()
        .map(|class| format!("`{}`", class["name"].as_str().expect("a name")))
        .collect();
    let head = "| argument | of | settings | can be assigned later | meaning |\n|---|---|---|---|---|\n";
    let page = format!(
        "# Stable-Baselines3's arguments\n\n\
         What the arguments of the [Python package](../python/README.md)'s classes become here: {}. Their defaults are those of\n\
         Stable-Baselines3 2.9.2 and sb3-contrib 2.9.2; `help(PPO)` shows them. `pavlov train --from-sb3` reads a file of RL Baselines3 Zoo\n\
         by the same table, and a test writes this page from it. A row without classes is of all that have the argument.\n\n{head}{}\n\
         ## Keys of `policy_kwargs`\n\n{head}{}",
        classes.join(", "),
        rows(&table["arguments"]),
        rows(&table["policy_kwargs"])
    );
    is_written("docs/sb3-arguments.md", &page);
}
