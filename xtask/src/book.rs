//! `cargo xtask book`: the pages of the checkout as a book of HTML, made by mdBook.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::Result;
use crate::steps::{self, read, write};

/// What is copied beside the pages, because they link to it.
const LINKED: [&str; 8] = ["*.md", "*.rs", "*.toml", "*.py", "*.gif", "*.png", "*.svg", "LICENSE-*"];

/// Copies the pages and what they link to, folders and all, so that every link holds in the book, too; then runs `mdbook`.
pub(crate) fn book(root: &Path) -> Result<()> {
    let folder = steps::fresh("book", "")?;
    let mut list = Command::new("git");
    let listed = steps::output_of(list.current_dir(root).args(["ls-files", "NOTICE"]).args(LINKED))?;
    let mut files: Vec<&str> = listed.lines().filter(|file| *file != "docs/SUMMARY.md").collect();
    files.sort_unstable();
    for file in &files {
        let to = folder.join("src").join(as_in_book(file));
        if file.ends_with(".md") {
            write(&to, &as_in_book(&read(&root.join(file))?))?;
            continue;
        }
        let made = fs::create_dir_all(to.parent().unwrap_or(&folder));
        made.and_then(|()| fs::copy(root.join(file), &to)).map_err(|error| format!("{file}: {error}"))?;
    }
    let table = read(&root.join("docs/SUMMARY.md"))?.replace("](", "](docs/");
    let others = files.iter().filter(|file| file.ends_with(".md") && !table.contains(&format!("]({file})")));
    let others: String = others.map(|file| format!("* [{file}]({file})\n")).collect();
    let table = format!("{table}\n# Pages of the folders\n\n{others}");
    write(&folder.join("src/SUMMARY.md"), &as_in_book(&table))?;
    write(&folder.join("book.toml"), "[book]\ntitle = \"pavlov\"\nlanguage = \"en\"\n")?;
    steps::run(Command::new("mdbook").arg("build").arg(&folder))
        .map_err(|error| format!("{error}; `cargo install mdbook --locked` installs it"))?;
    println!("the book: {}", folder.join("book/index.html").display());
    Ok(())
}

/// Names and links as mdBook has them: it makes `index.html` of a folder's page, and leaves links to `README.md` as they are.
fn as_in_book(text: &str) -> String {
    if text.contains('\n') {
        text.replace("README.md)", "index.md)").replace("README.md#", "index.md#")
    } else {
        text.replace("README.md", "index.md")
    }
}
