//! The section `[security]`: the user that the server becomes, and whether the kernel refuses what it never needs.
//!
//! Whether there is such a user is asked at the start, since the file may be for another machine.
//!
//! Cost: O(1).

use crate::security::{Sandbox, SecurityPlan};
use settings::fields::{Fields, put};
use settings::read::{Reader, shorten};
use settings::schema::{Kind, Table, key};
use settings::tree::{Node, Value};

/// `[security]`
pub static SECURITY: Table<SecurityPlan> = Table {
    path: "[security]",
    help: "The rights that the server gives up",
    keys: &[&[
        key(
            "user",
            "",
            "user, by name or number, that the server becomes when it is started as root; default: it stays what it is",
        )
        .takes(Kind::Own("user", |r, key, node, plan| put(&mut plan.user, read_account(r, key, node).map(Some)))),
        key("group", "", "group of that user, by name or number; default: the one that the system has for it")
            .takes(Kind::Own("group", |r, key, node, plan| put(&mut plan.group, read_account(r, key, node).map(Some)))),
        key(
            "sandbox",
            r#""on""#,
            "whether the kernel refuses files and system calls that the server does not need, only logs such calls, or neither",
        )
        .takes(Kind::Word(&[
            ("on", |plan| plan.sandbox = Sandbox::On),
            ("log", |plan| plan.sandbox = Sandbox::Log),
            ("off", |plan| plan.sandbox = Sandbox::Off),
        ])),
    ]],
};

/// Reads the section; an absent one gives defaults.
pub fn read_security(reader: &mut Reader<'_>, root: &Fields<'_>) -> SecurityPlan {
    let mut plan = SecurityPlan::default();
    let fields = SECURITY.read_section(reader, root, &mut plan);
    if let (None, Some(entry)) = (&plan.user, fields.entry("group"))
        && fields.entry("user").is_none()
    {
        reader.error(entry.key_at, "\"group\" without \"user\" does nothing; write user = \"NAME\", too".to_owned());
    }
    plan
}

/// Reads the name or number of a user or group.
fn read_account(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<String> {
    let wanted = format!("the name or number of a {key}, such as \"aggregator\"");
    if let Value::Integer(number) = &node.value
        && let Ok(number) = u32::try_from(*number)
    {
        return Some(number.to_string());
    }
    let text = reader.text(key, node, &wanted)?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '$' | '@');
    if text.is_empty() || !text.chars().all(is_name) {
        return reader.refuse(node.at, format!("\"{key}\" cannot be \"{}\"; write {wanted}", shorten(text)));
    }
    Some(text.to_owned())
}
