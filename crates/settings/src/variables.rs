//! Variables of the environment in the texts of a file: `${NAME}` is the value of `NAME`, and `$${` is the text `${`.
//!
//! Any other dollar sign stands for itself. Keys have no variables, only values, and what a variable holds is text: it is
//! not looked into again, and cannot be a number, a list or a part of the file.
//!
//! Invariant: a variable that is not set is an error at the place of the text that names it, and its text stays.
//!
//! Cost: O(text).

use crate::error::{ConfigError, Source};
use crate::tree::{Node, Value};

/// Puts the values of variables into all texts of a tree. Returns the places of those that are wrong.
pub fn fill(
    source: &Source<'_>,
    node: &mut Node,
    errors: &mut Vec<ConfigError>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Vec<usize> {
    let mut wrong = Vec::new();
    fill_all(node, variable, &mut |at, fault| {
        errors.push(source.error(at, fault));
        wrong.push(at);
    });
    wrong
}

/// Puts the values of variables into all texts of a tree, and tells of faults with their places.
fn fill_all(node: &mut Node, variable: &dyn Fn(&str) -> Option<String>, tell: &mut dyn FnMut(usize, String)) {
    match &mut node.value {
        Value::Text(text) if text.contains("${") => match put_in(text, variable) {
            Ok(filled) => *text = filled,
            Err(fault) => tell(node.at, fault),
        },
        Value::Table(entries) => {
            entries.iter_mut().for_each(|entry| fill_all(&mut entry.node, variable, tell));
        }
        Value::List(items) => items.iter_mut().for_each(|item| fill_all(item, variable, tell)),
        _ => {}
    }
}

/// Puts the values of variables into a text, or says what is wrong.
fn put_in(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    const AS_TEXT: &str = "write $${ for the text ${";
    let (mut filled, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find("${") {
        let (before, from) = rest.split_at(at);
        if let Some(before) = before.strip_suffix('$') {
            filled.push_str(before);
            filled.push_str("${");
            rest = &from[2..];
            continue;
        }
        filled.push_str(before);
        let Some((name, behind)) = from[2..].split_once('}') else {
            return Err(format!("a variable has no closing brace; write ${{NAME}}, or {AS_TEXT}"));
        };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if name.is_empty() || name.starts_with(|first: char| first.is_ascii_digit()) || !name.bytes().all(is_plain) {
            let advice = "write letters, digits and underscores";
            return Err(format!("\"{name}\" is no name of a variable; {advice}, or {AS_TEXT}"));
        }
        let value = variable(name);
        filled.push_str(&value.ok_or_else(|| {
            format!("variable {name} is not set in the environment, or is no UTF-8; set it, or {AS_TEXT}")
        })?);
        rest = behind;
    }
    filled.push_str(rest);
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_put_in_once() {
        let variable = |name: &str| match name {
            "A" => Some("a".to_owned()),
            "IN" => Some("${A}".to_owned()),
            _ => None,
        };
        let filled = |text: &str| put_in(text, &variable);
        for (text, expected) in [
            ("${A}", "a"),
            ("x${A}-${A}y", "xa-ay"),
            ("$A $$ $", "$A $$ $"),
            ("$${A}", "${A}"),
            ("$$${A}", "$${A}"),
            ("${IN}", "${A}"),
            ("$${", "${"),
        ] {
            assert_eq!(filled(text).as_deref(), Ok(expected), "{text}");
        }
        for (text, expected) in [
            ("${B}", "variable B is not set in the environment, or is no UTF-8; set it, or write $${ for the text ${"),
            ("${A", "a variable has no closing brace; write ${NAME}, or write $${ for the text ${"),
            (
                "${}",
                "\"\" is no name of a variable; write letters, digits and underscores, or write $${ for the text ${",
            ),
            (
                "${1}",
                "\"1\" is no name of a variable; write letters, digits and underscores, or write $${ for the text ${",
            ),
        ] {
            assert_eq!(filled(text).unwrap_err(), expected);
        }
    }
}
