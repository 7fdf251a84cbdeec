//! Parser for the ini file of `ubinize`: sections of `key = value` lines, one section per volume.
//!
//! Parsed as `ubinize` does (comments with `#` or `;`, quoted values, lines continued by a backslash, case-insensitive
//! keys), but strictly: what `ubinize` ignores silently, such as an unknown key or a repeated section, is an error
//! here.

use crate::media::{MAX_VOLUMES, VolType, VtblRecord};

/// Why an ini file is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct IniError {
    /// Line number, from 1.
    pub line: u32,
    /// What was found and what was expected.
    pub what: String,
    /// How to correct it.
    pub help: String,
}

/// One volume, as described by its section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeSection {
    /// Name of the section.
    pub section: String,
    /// Line number of the section.
    pub line: u32,
    /// `vol_id`: number of the volume.
    pub id: u32,
    /// `vol_type`; dynamic if absent.
    pub vol_type: VolType,
    /// `vol_name`: name of the volume.
    pub name: Vec<u8>,
    /// `vol_alignment` in bytes; 1 if absent.
    pub alignment: u32,
    /// `vol_size` in bytes.
    pub size: Option<u64>,
    /// `image`: path of the contents, unchanged.
    pub image: Option<Vec<u8>>,
    /// `vol_flags`, as in the volume table.
    pub flags: u8,
}

const KEYS: [&str; 8] = ["mode", "image", "vol_id", "vol_size", "vol_type", "vol_name", "vol_alignment", "vol_flags"];

/// A value and its line.
struct Value {
    line: u32,
    bytes: Vec<u8>,
}

struct Section {
    name: String,
    line: u32,
    values: [Option<Value>; KEYS.len()],
}

/// Parses an ini file.
/// Errors: a line that is neither section, key nor comment; a key or value that is unknown, missing or repeated.
pub fn parse(text: &[u8]) -> Result<Vec<VolumeSection>, IniError> {
    let mut sections: Vec<Section> = Vec::new();
    for (line, text) in logical_lines(text) {
        let text = text.trim_ascii();
        match text {
            [] | [b'#' | b';', ..] => {}
            [b'[', ..] => sections.push(section(line, text, &sections)?),
            _ => {
                let Some(section) = sections.last_mut() else {
                    let what = format!("found {}, expected a section such as [rootfs] first", shown(text));
                    return Err(refuse(line, what, "begin each volume with its own [section]"));
                };
                key(line, text, section)?;
            }
        }
    }
    if sections.is_empty() {
        return Err(refuse(1, "found no section, expected one for each volume", "begin each volume with [name]"));
    }
    sections.into_iter().map(Section::volume).collect()
}

fn refuse(line: u32, what: impl Into<String>, help: impl Into<String>) -> IniError {
    IniError { line, what: what.into(), help: help.into() }
}

fn shown(bytes: &[u8]) -> String {
    format!("{:?}", String::from_utf8_lossy(bytes))
}

/// Lines with their numbers; a line that ends in a backslash continues in the next.
fn logical_lines(text: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let mut lines: Vec<(u32, Vec<u8>)> = Vec::new();
    let mut goes_on = false;
    for (number, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let mut line = line.strip_suffix(b"\r").unwrap_or(line);
        let continued = goes_on;
        goes_on = line.ends_with(b"\\");
        if goes_on {
            line = &line[..line.len() - 1];
        }
        match lines.last_mut() {
            Some((_, last)) if continued => last.extend_from_slice(line),
            _ => lines.push((number as u32 + 1, line.to_vec())),
        }
    }
    lines
}

fn section(line: u32, text: &[u8], earlier: &[Section]) -> Result<Section, IniError> {
    let Some(end) = text.iter().position(|&byte| byte == b']') else {
        return Err(refuse(line, format!("found {}, expected a closing ]", shown(text)), "write [name]"));
    };
    let after = text[end + 1..].trim_ascii();
    if !matches!(after, [] | [b'#' | b';', ..]) {
        return Err(refuse(line, format!("found {} after a section's name", shown(after)), "begin a new line"));
    }
    let name = String::from_utf8_lossy(text[1..end].trim_ascii()).to_lowercase();
    if let Some(first) = earlier.iter().find(|section| section.name == name) {
        let what = format!("section [{name}] comes a second time, first in line {}", first.line);
        return Err(refuse(line, what, "give each volume its own section; ubinize would merge the two"));
    }
    Ok(Section { name, line, values: Default::default() })
}

fn key(line: u32, text: &[u8], section: &mut Section) -> Result<(), IniError> {
    let Some(equals) = text.iter().position(|&byte| byte == b'=') else {
        let what = format!("found {}, expected key=value", shown(text));
        return Err(refuse(line, what, "a comment begins with # or ;"));
    };
    let key = String::from_utf8_lossy(text[..equals].trim_ascii()).to_lowercase();
    let Some(at) = KEYS.iter().position(|&known| known == key) else {
        let near = nearest(&key, &KEYS);
        let help = near.map_or_else(|| format!("keys are {}", KEYS.join(", ")), |near| format!("did you mean {near}?"));
        return Err(refuse(line, format!("[{}] has an unknown key {key:?}", section.name), help));
    };
    let bytes = value(line, text[equals + 1..].trim_ascii())?;
    if let Some(first) = section.values[at].replace(Value { line, bytes }) {
        let what = format!("[{}] has {key} a second time, first in line {}", section.name, first.line);
        return Err(refuse(line, what, "leave one of them out"));
    }
    Ok(())
}

/// A quoted value unchanged; any other up to a comment.
fn value(line: u32, text: &[u8]) -> Result<Vec<u8>, IniError> {
    if let [quote @ (b'"' | b'\''), rest @ ..] = text {
        let Some(end) = rest.iter().position(|byte| byte == quote) else {
            let quote = char::from(*quote);
            return Err(refuse(line, format!("found {}, expected a closing {quote}", shown(text)), "close the quotes"));
        };
        return Ok(rest[..end].to_vec());
    }
    let end = text.iter().position(|byte| matches!(byte, b'#' | b';')).unwrap_or(text.len());
    Ok(text[..end].trim_ascii().to_vec())
}

impl Section {
    fn get(&self, key: &str) -> Option<&Value> {
        KEYS.iter().position(|&known| known == key).and_then(|at| self.values[at].as_ref())
    }

    fn need(&self, key: &str, help: &str) -> Result<&Value, IniError> {
        self.get(key).ok_or_else(|| refuse(self.line, format!("[{}] has no {key}", self.name), help))
    }

    fn wrong(&self, key: &str, value: &Value, expected: &str, help: impl Into<String>) -> IniError {
        let found = shown(&value.bytes);
        refuse(value.line, format!("[{}] has {key} = {found}, expected {expected}", self.name), help)
    }

    fn number(&self, key: &str, value: &Value, expected: &str) -> Result<u64, IniError> {
        number(&value.bytes).ok_or_else(|| self.wrong(key, value, expected, "write it in decimal, or as 0x…"))
    }

    fn volume(self) -> Result<VolumeSection, IniError> {
        let mode = self.need("mode", "add mode=ubi: the section describes a UBI volume")?;
        if mode.bytes != b"ubi" {
            return Err(self.wrong("mode", mode, "ubi", "write mode=ubi"));
        }
        let id = self.need("vol_id", "add vol_id=0, or the next free number")?;
        let id = match self.number("vol_id", id, "a number from 0 to 127")? {
            number if number < u64::from(MAX_VOLUMES) => number as u32,
            _ => return Err(self.wrong("vol_id", id, "a number from 0 to 127", "UBI has 128 volumes at most")),
        };
        let name = self.need("vol_name", "add vol_name=…")?;
        match name.bytes.len() {
            0 => return Err(self.wrong("vol_name", name, "1 to 127 bytes", "Linux refuses a volume without a name")),
            1..=VtblRecord::NAME_MAX => {}
            _ => return Err(self.wrong("vol_name", name, "1 to 127 bytes", "shorten the name")),
        }
        if name.bytes.contains(&0) {
            return Err(self.wrong("vol_name", name, "no NUL byte", "remove it"));
        }
        let vol_type = match self.get("vol_type") {
            None => VolType::Dynamic,
            Some(value) => {
                self.choice("vol_type", value, &[("dynamic", VolType::Dynamic), ("static", VolType::Static)])?
            }
        };
        let alignment = match self.get("vol_alignment") {
            None => 1,
            Some(value) => match self.number("vol_alignment", value, "a number of bytes")? {
                number @ 1..=0x7fff_ffff => number as u32,
                _ => return Err(self.wrong("vol_alignment", value, "1 to the LEB size", "leave it out for 1")),
            },
        };
        let size = match self.get("vol_size") {
            None => None,
            Some(value) => match size(&value.bytes) {
                Some(size @ 1..) => Some(size),
                _ => {
                    let expected = "bytes, or a whole number with KiB, MiB or GiB, above 0";
                    return Err(self.wrong("vol_size", value, expected, "write for example vol_size=30MiB"));
                }
            },
        };
        let flags = match self.get("vol_flags") {
            None => 0,
            Some(value) => {
                let known = [("autoresize", VtblRecord::AUTORESIZE), ("skip-check", VtblRecord::SKIP_CHECK)];
                let flags = self.choice("vol_flags", value, &known)?;
                if flags == VtblRecord::SKIP_CHECK && vol_type == VolType::Dynamic {
                    return Err(self.wrong(
                        "vol_flags",
                        value,
                        "vol_type=static with it",
                        "only static volumes are checked",
                    ));
                }
                flags
            }
        };
        let image = self.get("image").map(|value| value.bytes.clone());
        if let (Some([]), Some(value)) = (image.as_deref(), self.get("image")) {
            return Err(self.wrong("image", value, "a path", "leave image out for an empty volume"));
        }
        match (&image, size, vol_type) {
            (None, None, _) => {
                let what = format!("[{}] has neither image nor vol_size, expected one at least", self.name);
                Err(refuse(self.line, what, "add image=… for contents, or vol_size=… for an empty volume"))
            }
            (None, _, VolType::Static) => {
                let what = format!("[{}] is static and has no image", self.name);
                Err(refuse(self.line, what, "add image=…, or make it vol_type=dynamic"))
            }
            _ => Ok(VolumeSection {
                line: self.line,
                id,
                vol_type,
                name: name.bytes.clone(),
                alignment,
                size,
                image,
                flags,
                section: self.name,
            }),
        }
    }

    fn choice<T: Copy>(&self, key: &str, value: &Value, known: &[(&str, T)]) -> Result<T, IniError> {
        let found = known.iter().find(|(name, _)| name.as_bytes() == value.bytes);
        found.map(|&(_, choice)| choice).ok_or_else(|| {
            let names: Vec<&str> = known.iter().map(|&(name, _)| name).collect();
            let near = nearest(&String::from_utf8_lossy(&value.bytes).to_lowercase(), &names);
            let help = near.map_or_else(|| format!("leave {key} out"), |near| format!("did you mean {near}?"));
            self.wrong(key, value, &names.join(" or "), help)
        })
    }
}

/// A number in decimal, as 0x… or as 0… (octal), as C parses it.
pub fn number(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let (digits, radix) = match text {
        "0" => ("0", 10),
        _ if text.starts_with("0x") || text.starts_with("0X") => (&text[2..], 16),
        _ if text.starts_with('0') => (&text[1..], 8),
        _ => (text, 10),
    };
    if digits.starts_with('+') { None } else { u64::from_str_radix(digits, radix).ok() }
}

/// A size: a number of bytes, or of KiB, MiB or GiB.
pub fn size(text: &[u8]) -> Option<u64> {
    let units = [(&b"KiB"[..], 10), (b"MiB", 20), (b"GiB", 30)];
    let unit = units.iter().find_map(|&(unit, shift)| text.strip_suffix(unit).map(|digits| (digits, shift)));
    let (digits, shift) = unit.unwrap_or((text, 0));
    number(digits.trim_ascii())?.checked_mul(1 << shift)
}

/// The known word that differs least, if at most a third of its letters differ.
fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let near = known.iter().map(|&known| (distance(word.as_bytes(), known.as_bytes()), known)).min()?;
    (near.0 <= near.1.len().div_ceil(3)).then_some(near.1)
}

/// Edit distance: insertions, deletions and substitutions from one word to the other.
fn distance(from: &[u8], to: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().take(64).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let substituted = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}
