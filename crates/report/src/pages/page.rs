//! The frame of every page: one file that asks the network for nothing.

use super::text::escape;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// What a browser may do with the page: show what is in it, and nothing that lies elsewhere.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

/// A section of a page: its name in the address, its heading, and its content as HTML.
pub(super) struct Section {
    pub(super) id: String,
    pub(super) heading: String,
    pub(super) short: &'static str,
    pub(super) content: String,
}

/// Makes the page from its title, the HTML above the sections, and the sections; empty ones are left out.
pub(super) fn page(title: &str, head: &str, sections: &[Section]) -> String {
    let sections: Vec<&Section> = sections.iter().filter(|section| !section.content.is_empty()).collect();
    let link = |section: &&Section| format!("<a href=\"#{}\">{}</a>", section.id, escape(section.short));
    let links: String = sections.iter().map(link).collect();
    let whole = |section: &&Section| {
        let Section { id, heading, content, .. } = section;
        format!(
            "<section aria-labelledby=\"{id}\"><h2 id=\"{id}\">{}</h2>\n{content}</section>\n",
            escape(heading)
        )
    };
    let content: String = sections.iter().map(whole).collect();
    let title = escape(title);
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style></head>\n\
         <body>\n<nav aria-label=\"sections\">{links}</nav>\n<main><h1>{title}</h1>\n{head}{content}</main>\n\
         <script>\n{SCRIPT}</script></body></html>\n"
    )
}

/// A row of figures, each with what it counts.
pub(super) fn facts(facts: &[(String, String)]) -> String {
    let one = |(figure, of): &(String, String)| {
        format!("<div><b>{}</b><span>{}</span></div>", escape(figure), escape(of))
    };
    format!("<div class=\"facts\">{}</div>\n", facts.iter().map(one).collect::<String>())
}

/// A table of texts. A column of numbers stands at the right, another one at the left.
pub(super) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let begins_so =
        |cell: &str| cell.is_empty() || cell.starts_with(|c: char| c.is_ascii_digit() || c == '-');
    let is_number = |cell: &str| begins_so(cell) && cell.chars().count() <= 24;
    let of_column =
        |i: usize| match i == 0 || rows.iter().filter_map(|row| row.get(i)).all(|cell| is_number(cell)) {
            true => "",
            false => " class=\"word\"",
        };
    let classes: Vec<&str> = (0..head.len()).map(of_column).collect();
    let cells = |tag: &str, row: &mut dyn Iterator<Item = &str>| -> String {
        row.zip(&classes).map(|(cell, class)| format!("<{tag}{class}>{}</{tag}>", escape(cell))).collect()
    };
    let head = cells("th", &mut head.iter().copied());
    let row = |row: &Vec<String>| format!("<tr>{}</tr>\n", cells("td", &mut row.iter().map(String::as_str)));
    let rows: String = rows.iter().map(row).collect();
    format!(
        "<div class=\"wide\"><table><thead><tr>{head}</tr></thead><tbody>\n{rows}</tbody></table></div>\n"
    )
}

/// A command to copy.
pub(super) fn command(line: &str) -> String {
    format!("<pre>{}</pre>\n", escape(line))
}

/// A fold that opens at a click, and always on paper.
pub(super) fn fold(summary: &str, content: &str) -> String {
    format!("<details><summary>{}</summary>{content}</details>\n", escape(summary))
}

/// Names with what they stand for.
pub(super) fn list(items: &[(&str, String)]) -> String {
    let one = |(name, what): &(&str, String)| format!("<dt>{}</dt><dd>{}</dd>", escape(name), escape(what));
    format!("<dl>{}</dl>\n", items.iter().map(one).collect::<String>())
}
