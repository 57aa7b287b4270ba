//! The strings that sources hold: what the program can say, as far as that can be read without running it.

/// The strings of a source file, tests, comments and what only programmers read left out.
pub fn strings(source: &str) -> Vec<String> {
    let body = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or(source);
    let mut found = Vec::new();
    let mut at = 0;
    // Nothing else can begin what is to be told apart.
    while let Some(next) = body[at..].find(['/', '"', '\'', 'r']) {
        at += next;
        let (before, rest) = body.split_at(at);
        at += if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some((hashes, raw)) = raw_string(rest).filter(|_| !before.ends_with(char::is_alphanumeric)) {
            found.push(raw.to_owned());
            raw.len() + 3 + 2 * hashes
        } else if rest.starts_with('"') {
            let (text, length) = plain_string(rest);
            if !["expect(", "expect_err("].iter().any(|call| before.trim_end().ends_with(call)) {
                found.push(text);
            }
            length
        } else if rest.starts_with("'\"'") {
            3
        } else if rest.starts_with("'\\") {
            // A character with an escape, such as that of a quotation mark.
            rest[3..].find('\'').expect("a character ends") + 4
        } else {
            1
        };
    }
    found
}

/// The number of hashes and the contents of a raw string, if the text begins with one.
fn raw_string(text: &str) -> Option<(usize, &str)> {
    let after = text.strip_prefix('r')?;
    let bare = after.trim_start_matches('#');
    let hashes = after.len() - bare.len();
    let contents = bare.strip_prefix('"')?;
    let end = contents.find(&format!("\"{}", "#".repeat(hashes)))?;
    Some((hashes, &contents[..end]))
}

/// The contents of the string that a text begins with, and how long it is in the source.
fn plain_string(text: &str) -> (String, usize) {
    let mut contents = String::new();
    let mut characters = text.char_indices().skip(1).peekable();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (contents, at + 1),
            '\\' => match characters.next().expect("an escape ends").1 {
                // The rest of the line break and what indents the next line are no part of the string.
                '\n' => while characters.next_if(|(_, next)| next.is_whitespace()).is_some() {},
                'n' => contents.push('\n'),
                other => contents.push(other),
            },
            other => contents.push(other),
        }
    }
    panic!("a string ends: {}", &text[..text.len().min(80)]);
}

/// The fixed parts of a message between what is filled in.
pub fn fixed_parts(message: &str) -> Vec<String> {
    let message = message.replace("{{", "\u{1}").replace("}}", "\u{2}");
    let mut parts = Vec::new();
    let mut rest = message.as_str();
    while let Some((part, after)) = rest.split_once('{') {
        parts.push(part);
        rest = after.split_once('}').map_or("", |(_, after)| after);
    }
    parts.push(rest);
    parts.iter().map(|part| part.replace('\u{1}', "{").replace('\u{2}', "}")).collect()
}

#[test]
fn strings_are_read_as_the_compiler_reads_them() {
    let source = "fn f() { // \"none\"\n let a = \"one \\\"x\\\" {y}\"; let b = '\"'; x.expect(\"no\");\n    \
                  let c = r#\"raw \"q\" \"#;\n let d = \"two \\\n        lines\";\n}\n#[cfg(test)]\nmod tests { \"no\" }";
    assert_eq!(strings(source), ["one \"x\" {y}", "raw \"q\" ", "two lines"]);
    assert_eq!(fixed_parts("a {b} c {{d}} {}"), ["a ", " c {d} ", ""]);
}
