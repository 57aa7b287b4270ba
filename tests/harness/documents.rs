//! Tables of documents that tests write.

use super::folder::write_file;
use super::yaml::{repository_file, repository_text};

/// Replaces the table of a document, which stands between two comments.
pub fn write_table(document: &str, table: &str) {
    let text = repository_text(document);
    let (before, rest) = text.split_once("<!-- table -->\n").expect("the beginning of the table");
    let (_, after) = rest.split_once("<!-- end of table -->").expect("the end of the table");
    write_file(&repository_file(document), &format!("{before}<!-- table -->\n{table}<!-- end of table -->{after}"));
}
