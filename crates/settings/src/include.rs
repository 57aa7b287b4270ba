//! The key `include`: further files, whose sections and keys stand as if they were written in the first one.
//!
//! `include` is a list of paths, relative to the file that they stand in; an asterisk in the name of a file is any text, and
//! gives all files with such names in the order of their octets, but for hidden ones. Files may include others.
//!
//! Invariants: the order of what is included depends on the files and their names alone, the including file first; what
//! stands in two files is an error that names both places; a file is read once, so that circles end.
//!
//! Cost: O(files), and O(keys of a section squared) where several files have it.

use crate::asterisk;
use crate::error::{ConfigError, Source};
use crate::tree::{self, Entry, Node, Value};
use crate::{not_utf8, variables};
use std::fs;
use std::path::{Path, PathBuf};

/// The key.
const INCLUDE: &str = "include";

/// What is read of a file and of those that it includes.
struct Gathering<'s, 't> {
    source: &'s mut Source<'t>,
    errors: &'s mut Vec<ConfigError>,
    /// Value of a variable of the environment.
    variable: &'s dyn Fn(&str) -> Option<String>,
    /// Files that are included, and where.
    known: Vec<(PathBuf, usize)>,
    /// Files that lead to the one that is read, by their identities and as they are named.
    way: Vec<(PathBuf, String)>,
    /// Places of texts that are wrong for their variables.
    wrong: Vec<usize>,
}

/// Puts the files that a tree includes into it, and the environment's variables into all texts. Returns the places of texts
/// that are wrong for their variables, of which nothing more is to be said.
pub fn gather(
    source: &mut Source<'_>,
    root: &mut Node,
    errors: &mut Vec<ConfigError>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Vec<usize> {
    let wrong = variables::fill(source, root, errors, variable);
    let way = vec![(identity(source.path), source.path.display().to_string())];
    let mut gathering = Gathering { source, errors, variable, known: Vec::new(), way, wrong };
    gathering.resolve(root);
    gathering.wrong
}

impl Gathering<'_, '_> {
    /// Puts the files that a tree includes into it.
    fn resolve(&mut self, root: &mut Node) {
        let Value::Table(entries) = &mut root.value else { return };
        let Some(place) = entries.iter().position(|entry| entry.key == INCLUDE) else { return };
        let Entry { node, .. } = entries.remove(place);
        let patterns = match &node.value {
            Value::List(patterns) => patterns.as_slice(),
            _ => std::slice::from_ref(&node),
        };
        for pattern in patterns {
            let Value::Text(text) = &pattern.value else {
                let advice = "write a list of files such as [\"conf.d/*.toml\"]";
                self.error(pattern.at, format!("\"{INCLUDE}\" has {}; {advice}", pattern.kind()));
                continue;
            };
            let folder = self.source.path_at(pattern.at).parent().unwrap_or_else(|| "".as_ref()).to_path_buf();
            match expand(&folder, text) {
                Ok(files) => files.into_iter().for_each(|file| self.take(root, file, pattern.at)),
                Err(fault) => self.error(pattern.at, format!("\"{INCLUDE}\" {fault}")),
            }
        }
    }

    /// Reads a file and puts it into a tree.
    fn take(&mut self, root: &mut Node, path: PathBuf, at: usize) {
        let (shown, own) = (path.display().to_string(), identity(&path));
        if let Some(begin) = self.way.iter().position(|(there, _)| *there == own) {
            let way: Vec<&str> = self.way[begin..].iter().map(|(_, shown)| shown.as_str()).chain([&*shown]).collect();
            let advice = "remove it from one of them";
            return self.error(at, format!("\"{INCLUDE}\" goes in a circle: {}; {advice}", way.join(", ")));
        }
        if let Some((_, first)) = self.known.iter().find(|(there, _)| *there == own) {
            let first = self.source.mention(*first);
            return self.error(at, format!("\"{INCLUDE}\" has {shown} a second time, after {first}; remove one"));
        }
        self.known.push((own.clone(), at));
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) => {
                let advice = "check the path and its permissions";
                return self.error(at, format!("\"{INCLUDE}\" {shown} cannot be read: {error}; {advice}"));
            }
        };
        let text = match String::from_utf8(bytes) {
            Ok(text) => text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text),
            Err(error) => return self.errors.push(not_utf8(&path, error)),
        };
        let (tree, errors) = tree::parse(&Source::new(&path, &text));
        self.errors.extend(errors);
        let start = self.source.include(path, text);
        let Some(mut tree) = tree else { return };
        shift(&mut tree, start);
        self.wrong.extend(variables::fill(self.source, &mut tree, self.errors, self.variable));
        self.way.push((own, shown));
        self.resolve(&mut tree);
        self.way.pop();
        if let (Value::Table(there), Value::Table(more)) = (&mut root.value, tree.value) {
            self.merge(there, more);
        }
    }

    /// Puts the sections and keys of one file to those of another.
    fn merge(&mut self, there: &mut Vec<Entry>, more: Vec<Entry>) {
        for entry in more {
            let Some(present) = there.iter_mut().find(|present| present.key == entry.key) else {
                there.push(entry);
                continue;
            };
            match (&mut present.node.value, entry.node.value) {
                (Value::Table(there), Value::Table(more)) => {
                    for inner in more {
                        match there.iter().find(|present| present.key == inner.key) {
                            None => there.push(inner),
                            Some(present) => {
                                let name = format!("\"{}\" of [{}]", inner.key, entry.key);
                                self.twice(&name, inner.key_at, present.key_at);
                            }
                        }
                    }
                }
                (Value::List(there), Value::List(more)) => there.extend(more),
                _ => self.twice(&format!("\"{}\"", entry.key), entry.key_at, present.key_at),
            }
        }
    }

    /// Tells of what stands in two files.
    fn twice(&mut self, name: &str, at: usize, first: usize) {
        let first = self.source.mention(first);
        self.error(at, format!("{name} is given in {first} already; keep one of them"));
    }

    /// Notes an error.
    fn error(&mut self, at: usize, message: String) {
        self.errors.push(self.source.error(at, message));
    }
}

/// The same for all names of a file.
fn identity(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}

/// Moves all places of a tree.
fn shift(node: &mut Node, by: usize) {
    node.at += by;
    match &mut node.value {
        Value::Table(entries) => {
            for entry in entries {
                entry.key_at += by;
                shift(&mut entry.node, by);
            }
        }
        Value::List(items) => items.iter_mut().for_each(|item| shift(item, by)),
        _ => {}
    }
}

/// The files that a path with or without an asterisk means, in order; or what is wrong with it.
fn expand(folder: &Path, pattern: &str) -> Result<Vec<PathBuf>, String> {
    let path = Path::new(pattern);
    let name = path.file_name().and_then(|name| name.to_str());
    let Some(name) = name.filter(|_| !pattern.contains('\0')) else {
        return Err(format!("\"{pattern}\" is no path of a file; write for example \"conf.d/*.toml\""));
    };
    let within = path.parent().unwrap_or_else(|| "".as_ref());
    if within.to_string_lossy().contains('*') {
        return Err(format!(
            "\"{pattern}\" has an asterisk in the name of a folder; write it in that of the file only"
        ));
    }
    let within = folder.join(within);
    if !name.contains('*') {
        return Ok(vec![within.join(name)]);
    }
    let listed = if within.as_os_str().is_empty() { fs::read_dir(".") } else { fs::read_dir(&within) };
    let unreadable = |error| format!("{} cannot be listed: {error}; make the folder, or remove this", within.display());
    let mut names = Vec::new();
    for entry in listed.map_err(unreadable)? {
        let found = entry.map_err(unreadable)?.file_name();
        if let Some(found) = found.to_str().filter(|found| is_like(name, found) && within.join(found).is_file()) {
            names.push(found.to_owned());
        }
    }
    names.sort_unstable();
    Ok(names.into_iter().map(|name| within.join(name)).collect())
}

/// Returns true if a file has a name of this pattern, in which an asterisk is any text. Hidden files have not, unless the
/// pattern begins as they do.
fn is_like(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') && !pattern.starts_with('.') {
        return false;
    }
    asterisk::is_like(pattern, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_asterisk_is_any_text_in_the_name_of_a_file() {
        for (pattern, name) in [("*.toml", "a.toml"), ("a*b*", "a-b-"), ("*", "x"), ("a.toml", "a.toml"), (".*", ".a")]
        {
            assert!(is_like(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("*.toml", "a.toml~"), ("*.toml", ".a.toml"), ("a*a", "a"), ("a", "ab"), ("*b*c", "cb")]
        {
            assert!(!is_like(pattern, name), "{pattern} {name}");
        }
    }

    /// Reads files of a folder, the first of which is `c.toml`: the tree as text, and the errors.
    fn read(files: &[(&str, &str)]) -> (String, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let path = folder.path().join("c.toml");
        let text = fs::read_to_string(&path).unwrap();
        let (mut source, mut errors) = (Source::new(&path, &text), Vec::new());
        let mut root = tree::parse(&source).0.unwrap();
        gather(&mut source, &mut root, &mut errors, &|name| (name == "X").then(|| "x".to_owned()));
        let home = format!("{}/", folder.path().display());
        let mut values = Vec::new();
        flatten(&source, "", &root, &mut values);
        let told = errors.iter().map(|error| error.to_string().replace(&home, ""));
        (values.join(" ").replace(&home, ""), told.collect())
    }

    /// Writes all values of a tree with their places.
    fn flatten(source: &Source<'_>, name: &str, node: &Node, values: &mut Vec<String>) {
        match &node.value {
            Value::Table(entries) => {
                entries.iter().for_each(|entry| flatten(source, &format!("{name}/{}", entry.key), &entry.node, values));
            }
            Value::List(items) => items.iter().for_each(|item| flatten(source, name, item, values)),
            Value::Text(text) => values.push(format!("{name}={text}@{}", source.position(node.at))),
            other => values.push(format!("{name}={other:?}")),
        }
    }

    #[test]
    fn files_stand_in_their_order_behind_the_one_that_includes_them() {
        let (values, errors) = read(&[
            ("c.toml", "include = [\"d/*.toml\", \"e.json\"]\nlist = [\"0\"]\n[s]\na = \"1\"\n"),
            ("d/2.toml", "list = [\"4\"]\n[s]\nc = \"3\"\n"),
            ("d/1.toml", "include = \"../f.toml\"\n[s]\nb = \"${X}\"\n"),
            ("d/3.txt", "nothing"),
            ("f.toml", "[s]\nf = \"f\"\n"),
            ("e.json", "{ \"t\": { \"e\": \"5\" } }"),
        ]);
        assert_eq!(errors, [""; 0]);
        let expected = "/list=0@c.toml:2:9 /list=4@d/2.toml:1:9 /s/a=1@c.toml:4:5 /s/b=x@d/1.toml:3:5 \
                        /s/f=f@d/../f.toml:2:5 /s/c=3@d/2.toml:3:5 /t/e=5@e.json:1:15";
        assert_eq!(values, expected);
    }

    #[test]
    fn a_circle_ends() {
        let (_, errors) = read(&[
            ("c.toml", "include = [\"a.toml\", \"b.toml\"]"),
            ("a.toml", "include = [\"b.toml\"]"),
            ("b.toml", "include = [\"./c.toml\", \"b.toml\"]"),
        ]);
        assert_eq!(errors.len(), 3, "{errors:?}");
        assert!(errors[0].starts_with("b.toml:1:12: \"include\" goes in a circle: c.toml, a.toml, b.toml, ./c.toml;"));
        assert!(errors[1].starts_with("b.toml:1:24: \"include\" goes in a circle: b.toml, b.toml;"), "{errors:?}");
        assert_eq!(errors[2], "c.toml:1:22: \"include\" has b.toml a second time, after line 1 of a.toml; remove one");
    }
}
