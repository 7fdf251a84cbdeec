//! What the options of `nandlab image edit` say.

use ubi::media::VolType;

use super::super::load::{number32, size32, size64};
use ubi::image::PebList;

/// A volume and what is said about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Name or number of the volume.
    pub volume: String,
    /// The new name, or a file.
    pub to: String,
}

/// Size of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    Bytes(u64),
    Lebs(u32),
    /// All that is available.
    All,
}

/// A volume to add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Add {
    pub name: String,
    pub size: Size,
    pub vol_type: VolType,
    pub id: Option<u32>,
    pub alignment: u32,
    pub skip_check: bool,
}

/// The counter of some PEBs, or of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CounterOf {
    /// `None` for all.
    pub pebs: Option<PebList>,
    pub ec: u32,
}

fn split<'a>(text: &'a str, form: &str) -> Result<(&'a str, &'a str), String> {
    match text.split_once('=') {
        Some((left, right)) if !left.is_empty() && !right.is_empty() => Ok((left, right)),
        _ => Err(format!("expected {form}")),
    }
}

/// Parses `VOLUME=SOMETHING`.
pub fn named(text: &str) -> Result<Named, String> {
    let (volume, to) = split(text, "the volume, =, and its new name or a file")?;
    Ok(Named { volume: volume.to_owned(), to: to.to_owned() })
}

fn size(text: &str) -> Result<Size, String> {
    if text == "all" {
        return Ok(Size::All);
    }
    let found = match text.strip_suffix("lebs") {
        Some(lebs) => number32(lebs.trim()).map(Size::Lebs),
        None => size64(text).map(Size::Bytes),
    };
    found.map_err(|_| format!("found size {text:?}, expected bytes as 4MiB, LEBs as 20lebs, or all"))
}

/// Parses `VOLUME=SIZE`.
pub fn resize(text: &str) -> Result<(String, Size), String> {
    let (volume, to) = split(text, "the volume, =, and its size")?;
    Ok((volume.to_owned(), size(to)?))
}

/// Parses `NAME=SIZE[,OPTION…]`.
pub fn add(text: &str) -> Result<Add, String> {
    let (name, rest) = split(text, "a name, =, and a size")?;
    let mut options = rest.split(',');
    let mut found = Add {
        name: name.to_owned(),
        size: size(options.next().unwrap_or_default())?,
        vol_type: VolType::Dynamic,
        id: None,
        alignment: 1,
        skip_check: false,
    };
    for option in options {
        match option.split_once('=') {
            None if option == "static" => found.vol_type = VolType::Static,
            None if option == "skip-check" => found.skip_check = true,
            Some(("id", id)) => found.id = Some(number32(id)?),
            Some(("align", bytes)) => found.alignment = size32(bytes)?,
            _ => return Err(format!("found option {option:?}, expected static, skip-check, id=N or align=BYTES")),
        }
    }
    Ok(found)
}

/// Parses `PEBS=N`.
pub fn counters(text: &str) -> Result<CounterOf, String> {
    let (pebs, ec) = split(text, "PEB numbers or all, =, and a counter")?;
    let pebs = if pebs == "all" { None } else { Some(PebList::parse(pebs)?) };
    Ok(CounterOf { pebs, ec: number32(ec)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_whole_or_refused() {
        let plain = Add {
            name: "a".into(),
            size: Size::All,
            vol_type: VolType::Dynamic,
            id: None,
            alignment: 1,
            skip_check: false,
        };
        assert_eq!(add("a=all"), Ok(plain.clone()));
        let expected = Add {
            size: Size::Lebs(20),
            vol_type: VolType::Static,
            id: Some(3),
            alignment: 2048,
            skip_check: true,
            ..plain
        };
        assert_eq!(add("a=20lebs,static,id=3,align=2KiB,skip-check"), Ok(expected));
        assert_eq!(resize("a=4MiB"), Ok(("a".into(), Size::Bytes(4 << 20))));
        assert_eq!(counters("all=7"), Ok(CounterOf { pebs: None, ec: 7 }));
        assert_eq!(counters("3-4=0x10").map(|it| it.ec), Ok(16));
        for wrong in ["a", "a=", "=all", "a=lebs", "a=all,dynamic", "a=all,id=x", "a=-1"] {
            assert!(add(wrong).is_err(), "{wrong}");
        }
        assert!(named("a").is_err() && counters("x=1").is_err() && counters("1=x").is_err());
    }
}
