//! URLs of services that are asked over HTTP, and the certificates that they show.
//!
//! Cost: O(text).

use settings::read::{Reader, shorten};
use settings::tree::Node;
use std::fs;
use std::path::PathBuf;
use url::Url;

/// Reads a URL of the scheme `http` or `https`; `wanted` is an example of one.
pub fn read_url(reader: &mut Reader<'_>, key: &str, node: &Node, wanted: &str) -> Option<Url> {
    let wanted = format!("a URL such as \"{wanted}\"");
    let text = reader.text(key, node, &wanted)?;
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    match url {
        Some(url) if !url.username().is_empty() || url.password().is_some() => {
            reader.refuse(node.at, format!("\"{key}\" has a user or password; write \"token_file\" instead"))
        }
        Some(url) => Some(url),
        None => reader.refuse(node.at, format!("\"{key}\" cannot be \"{}\"; write {wanted}", shorten(text))),
    }
}

/// Reads the file with certificates.
pub fn read_ca(reader: &mut Reader<'_>, key: &str, node: &Node, touch_disk: bool) -> Option<(PathBuf, String)> {
    let file = reader.path(key, node)?;
    if !touch_disk {
        return Some((file, String::new()));
    }
    match fs::read_to_string(&file) {
        Ok(text) => Some((file, text)),
        Err(error) => {
            let advice = "write the path of a PEM file";
            let fault = format!("\"{key}\" {} cannot be read: {error}; {advice}", file.display());
            reader.refuse_file(node.at, fault, true)
        }
    }
}
