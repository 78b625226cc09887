//! JSON lines and CSV: types, several files, bad rows, memory.

use std::fs;
use std::path::Path;

use pavlov_data::{DataType, Dataset, Files, IterBatches, Schema, Shuffle};
use tempfile::{TempDir, tempdir};

use super::{all, batches, problem, size, sorted};

/// A directory with these files.
fn with_files(files: &[(&str, &str)]) -> TempDir {
    let home = tempdir().unwrap();
    for (name, text) in files {
        let path = home.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    home
}

/// What is wrong with a file of that text; its directory is left out of the message.
fn refused(name: &str, text: &str, types: Schema) -> String {
    let home = with_files(&[(name, text)]);
    let path = home.path().join(name);
    let files = if name.ends_with("csv") { Files::csv(path) } else { Files::json(path) };
    without(home.path(), &problem(&Dataset::from_source(files.with_schema(types))))
}

fn without(home: &Path, message: &str) -> String {
    message.replace(&format!("{}/", home.display()), "")
}

#[test]
fn json_lines_become_columns() {
    let text =
        "{\"x\": 1, \"obs\": [0.5, 1]}\n\n  {\"obs\": [2, 3], \"x\": 2.5}\r\n{\"x\":null,\"obs\":[4,5]}";
    let home = with_files(&[("a.jsonl", text)]);
    let dataset = Dataset::read_json(home.path().join("a.jsonl"));
    assert_eq!(dataset.schema().unwrap().to_string(), "x: float, obs: float[2]");
    let block = dataset.blocks().unwrap().next().unwrap().unwrap();
    assert_eq!(
        block.float("obs").unwrap().iter().copied().collect::<Vec<_>>(),
        [0.5, 1.0, 2.0, 3.0, 4.0, 5.0]
    );
    let x = block.float("x").unwrap();
    assert_eq!((x[0], x[1], x[2].is_nan()), (1.0, 2.5, true));
}

#[test]
fn csv_columns_have_the_narrowest_type_of_all_values() {
    let text =
        "int,float,gaps,flag,text,\"quoted, name\"\n1,1,,true,1,\"a\nb\"\n-2,2.5,3,False,x,\"\"\"c\"\"\"\n";
    let home = with_files(&[("a.csv", text)]);
    let dataset = Dataset::read_csv(home.path().join("a.csv"));
    assert_eq!(
        dataset.schema().unwrap().to_string(),
        "int: int, float: float, gaps: float, flag: bool, text: text, quoted, name: text"
    );
    let block = dataset.blocks().unwrap().next().unwrap().unwrap();
    assert_eq!(block.int("int").unwrap().as_slice().unwrap(), [1, -2]);
    assert_eq!(block.float("float").unwrap().as_slice().unwrap(), [1.0, 2.5]);
    assert!(block.float("gaps").unwrap()[0].is_nan());
    assert_eq!(block.bool("flag").unwrap().as_slice().unwrap(), [true, false]);
    assert_eq!(block.text("text").unwrap(), ["1", "x"]);
    assert_eq!(block.text("quoted, name").unwrap(), ["a\nb", "\"c\""]);
}

#[test]
fn a_schema_says_the_types_of_the_columns_it_names() {
    let home = with_files(&[("a.csv", "x,y\n1,2\n"), ("a.jsonl", "{\"x\": 1, \"y\": 2}\n")]);
    let types = Schema::new([("x", DataType::Float)]);
    let schema =
        |files: Files| Dataset::from_source(files.with_schema(types.clone())).schema().unwrap().to_string();
    assert_eq!(schema(Files::csv(home.path().join("a.csv"))), "x: float, y: int");
    assert_eq!(schema(Files::json(home.path().join("a.jsonl"))), "x: float, y: int");
}

#[test]
fn files_of_lists_directories_and_patterns_are_read_in_order() {
    let home = with_files(&[
        ("b.csv", "id\n3\n"),
        ("a.csv", "id\n1\n2\n"),
        ("deep/c.csv", "id\n4\n"),
        ("empty.csv", "id\n"),
        ("notes.txt", "no rows"),
        ("_temporary.csv", "id\n9\n"),
    ]);
    let path = |name: &str| home.path().join(name);
    assert_eq!(all(&Dataset::read_csv(home.path())), [1, 2, 3, 4]);
    assert_eq!(all(&Dataset::read_csv([path("b.csv"), path("a.csv")])), [3, 1, 2]);
    assert_eq!(all(&Dataset::read_csv(path("?.csv"))), [1, 2, 3]);
    assert_eq!(all(&Dataset::read_csv(path("**/*.csv")).filter(|row| row["id"] != 9)), [1, 2, 3, 4]);
    let message = |dataset: Dataset| without(home.path(), &problem(&dataset));
    assert_eq!(message(Dataset::read_csv(path("*.tsv"))), "dataset: *.tsv matches no file");
    assert_eq!(
        message(Dataset::read_json(path("deep"))),
        "dataset: deep has no files that end in .json, .jsonl, .ndjson"
    );
    assert_eq!(
        message(Dataset::read_json(path("none.json"))),
        "cannot open none.json: No such file or directory (os error 2)"
    );
}

#[test]
fn bad_rows_are_told_with_file_line_and_column() {
    let none = Schema::default;
    for (name, text, types, message) in [
        (
            "a.jsonl",
            "{\"x\": 1}\n\n{\"x\": \"b\"}\n",
            none(),
            "a.jsonl:3, column `x`: the value is \"b\", but the column is int: give its type with a schema",
        ),
        (
            "a.jsonl",
            "{\"x\": 1}\n{\"x\": 1,, }\n",
            none(),
            "a.jsonl:2: it is no JSON object: key must be a string at character 9; there must be one object per line",
        ),
        (
            "a.jsonl",
            "[1]\n",
            none(),
            "a.jsonl:1: it is no JSON object: invalid type: sequence, expected an object with a value per column; there \
             must be one object per line",
        ),
        (
            "a.jsonl",
            "{\"x\": 1} {\"x\": 2}\n",
            none(),
            "a.jsonl:1: it is no JSON object: trailing characters at character 10; there must be one object per line",
        ),
        ("a.jsonl", "{\"x\": 1, \"x\": 2}\n", none(), "a.jsonl:1, column `x`: the row has it twice"),
        (
            "a.jsonl",
            "{\"x\": 1, \"s\": \"a\"}\n{\"x\": 1}\n",
            none(),
            "a.jsonl:2, column `s`: the value is missing, but the column is text: only a float column may miss values",
        ),
        (
            "a.jsonl",
            "{\"x\": [1, 2]}\n",
            Schema::new([("x", DataType::Float, [3])]),
            "a.jsonl:1, column `x`: the value has the shape [2], but the rows before or the schema have [3]: all rows \
             need one shape",
        ),
        ("a.csv", "x,y\n1,\"a\nb\"\n2\n", none(), "a.csv:4: it has 1 fields, but the header has 2"),
        (
            "a.csv",
            "x,y\n1,\"a\nb\"\n2.5,c\n",
            Schema::new([("x", DataType::Int)]),
            "a.csv:4, column `x`: the value is \"2.5\", but the column is int: give its type with a schema",
        ),
        (
            "a.csv",
            "x\ntrue\n1\n",
            Schema::new([("x", DataType::Bool)]),
            "a.csv:3, column `x`: the value is \"1\", but the column is bool: give its type with a schema",
        ),
        (
            "a.csv",
            "x,y\n1,1\n,2\n",
            Schema::new([("x", DataType::Int)]),
            "a.csv:3, column `x`: the value is missing, but the column is int: only a float column may miss values",
        ),
        ("a.csv", "x,x\n1,2\n", none(), "a.csv:1, column `x`: the header has it twice"),
        (
            "a.csv",
            "x,y\n1,\n2,\n",
            none(),
            "a.csv:2, column `y`: none of the first rows has a value: give its type with a schema",
        ),
        (
            "a.csv",
            "x\n1\n",
            Schema::new([("z", DataType::Int)]),
            "a.csv:1, column `z`: the header does not have it; it has x",
        ),
        (
            "a.csv",
            "x\n1\n",
            Schema::new([("x", DataType::Int, [2])]),
            "`schema` is x of shape [2], but a field of CSV is a single value: give the parts columns of their own",
        ),
    ] {
        assert_eq!(refused(name, text, types), message);
    }
    let home = with_files(&[]);
    fs::write(home.path().join("a.csv"), b"x\n1\n\xff\n").unwrap();
    let message = without(home.path(), &problem(&Dataset::read_csv(home.path())));
    assert!(message.starts_with("a.csv:3: it is not UTF-8: "), "{message}");
}

#[test]
fn what_later_rows_bring_must_fit_the_first_block() {
    // 4096 rows are the first block.
    let ints: String = (0..4096).map(|id| format!("{id}\n")).collect();
    let csv = refused("a.csv", &format!("x\n{ints}0.5\n"), Schema::default());
    assert_eq!(
        csv,
        "a.csv:4098, column `x`: the value is \"0.5\", but the column is int: give its type with a schema"
    );
    let lines: String = (0..4096).map(|id| format!("{{\"x\": {id}}}\n")).collect();
    let json = refused("a.jsonl", &format!("{lines}{{\"x\": 0.5}}\n"), Schema::default());
    assert_eq!(
        json,
        "a.jsonl:4097, column `x`: the value is 0.5, but the column is int: give its type with a schema"
    );
    let json = refused("a.jsonl", &format!("{lines}{{\"x\": 1, \"y\": 0}}\n"), Schema::default());
    assert_eq!(json, "a.jsonl:4097, column `y`: the first rows or the schema do not have it; they have x");
}

#[test]
fn files_must_have_the_same_columns_in_any_order() {
    let home = with_files(&[("a.csv", "id,x\n1,2\n"), ("b.csv", "x,id\n4,3\n")]);
    assert_eq!(all(&Dataset::read_csv(home.path())), [1, 3]);
    fs::write(home.path().join("c.csv"), "id\n5\n").unwrap();
    let message = || without(home.path(), &problem(&Dataset::read_csv(home.path())));
    assert_eq!(message(), "c.csv:1, column `x`: the header does not have it; it has id");
    fs::write(home.path().join("c.csv"), "id,x,y\n5,6,7\n").unwrap();
    assert_eq!(message(), "c.csv:1, column `y`: the header has it, but the files before have id, x");
}

#[test]
fn files_are_read_in_blocks_and_again_in_each_pass() {
    let count = 10_000;
    let lines: String = (0..count).map(|id| format!("{{\"id\": {id}}}\n")).collect();
    let rows: String = (0..count).map(|id| format!("{id}\n")).collect();
    let home = with_files(&[("a.jsonl", &lines), ("a.csv", &format!("id\n{rows}"))]);
    for dataset in [Dataset::read_json(home.path()), Dataset::read_csv(home.path())] {
        let blocks: Vec<usize> = dataset.blocks().unwrap().map(|block| block.unwrap().num_rows()).collect();
        assert_eq!(blocks, [4096, 4096, 1808]);
        assert_eq!(
            batches(&dataset, size(3000)).iter().map(Vec::len).collect::<Vec<_>>(),
            [3000, 3000, 3000, 1000]
        );
        let shuffle = Some(Shuffle { seed: 3, epoch: 1, buffer_size: 500 });
        let shuffled = batches(&dataset, IterBatches { shuffle, ..size(64) }).concat();
        assert_eq!(sorted(shuffled), (0..count).collect::<Vec<_>>());
        assert_eq!(dataset.count().unwrap(), 10_000);
    }
    // A megabyte per row: a block ends at four.
    let wide = format!("{{\"x\": \"{}\"}}\n", "a".repeat(1 << 20));
    let home = with_files(&[("a.jsonl", &wide.repeat(6))]);
    let blocks = Dataset::read_json(home.path()).blocks().unwrap();
    assert_eq!(blocks.map(|block| block.unwrap().num_rows()).collect::<Vec<_>>(), [4, 2]);
}
