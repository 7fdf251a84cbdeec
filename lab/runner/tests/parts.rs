//! The embedded parts: each figure is of its kind, each chip is a device, and the reader refuses what it should.

use nand::{Array, PageOrder, Tags, by_nandsim_id};
use runner::parts::{BASE, FILES, Kind, Library, NandPart, Part, PartError, Provenance};
use runner::schema::Experiment;
use runner::subject::Subject;
use runner::subject::drive::Layer;
use sim::seam::{Flash, Medium, Payload};
use sim::{Cx, Ns, Peb, Seed};
use ssd::ftl::page::PageConfig;

fn chips() -> impl Iterator<Item = &'static NandPart> {
    Library::embedded().parts().filter_map(|part| match part {
        Part::Nand(part) => Some(part),
        Part::Drive(_) => None,
    })
}

#[test]
fn there_are_chips_of_every_kind_and_a_file_is_called_as_its_part() {
    for kind in Kind::ALL {
        assert!(chips().any(|part| part.kind == kind), "{kind}");
    }
    assert_eq!(Library::embedded().parts().count(), FILES.len());
    for part in Library::embedded().parts() {
        let folder = if matches!(part, Part::Nand(_)) { "nand" } else { "drive" };
        assert_eq!(part.head().file, format!("{folder}/{}.toml", part.head().name));
    }
}

#[test]
fn every_chip_is_a_device_with_its_faults_too() {
    for part in chips() {
        let mut config = part.config.clone();
        config.faults = Some(part.faults(Seed(1)));
        config.validate().unwrap_or_else(|wrong| panic!("{}: {wrong}", part.head.name));
        assert_eq!(part.kind.is_nor(), config.geometry.medium == Medium::Nor, "{}", part.head.name);
        assert_eq!(part.kind.is_nor(), config.ecc.is_none(), "{}", part.head.name);
    }
}

#[test]
fn figures_are_of_their_kind() {
    for part in chips() {
        let (name, g) = (&part.head.name, part.config.geometry);
        assert!((512 << 10..64 << 30).contains(&g.bytes()), "{name}: {}", g.bytes());
        let (fewest, most) = match part.kind {
            Kind::Tlc => (500, 3_000),
            Kind::Mlc => (3_000, 10_000),
            _ => (50_000, 100_000),
        };
        assert!((fewest..=most).contains(&part.endurance), "{name}: {}", part.endurance);
        let cells = part.config.timing.resolve(&g).cells;
        assert!(cells.read < cells.program && cells.program < cells.erase, "{name}");
        if let Some(ecc) = part.config.ecc {
            // LDPC and on-die codes have room of their own; a BCH code must fit the OOB.
            let parity = g.page_bytes / ecc.step_bytes * ecc.parity_bytes();
            assert!(parity <= g.oob_bytes, "{name}: {parity} bytes of parity");
        }
    }
}

#[test]
fn half_of_all_chips_have_cell_times_that_were_read_in_a_source() {
    let is_read = |part: &NandPart, key| part.head.figures.iter().any(|it| it.key == key && !it.is_recalled());
    let read =
        chips().filter(|part| ["nand.timing.program_us", "nand.timing.erase_us"].iter().all(|key| is_read(part, *key)));
    assert!(2 * read.count() >= chips().count());
}

#[test]
fn a_chip_takes_what_its_sheet_says() {
    let part = Library::embedded().nand("mt29f4g08abada").unwrap();
    let mut array = Array::new(part.config.clone(), Tags);
    let mut cx = Cx::new();
    array.erase(&mut cx, Peb(0)).unwrap();
    // 60h, three addresses, D0h and status at 20 ns, tWB, tWHR.
    assert_eq!(cx.now(), Ns(700_000 + 6 * 20 + 180));
    array.program(&mut cx, Peb(0), 0, Payload::Length(2048)).unwrap();
    assert_eq!(cx.now(), Ns(700_300 + 8 * 20 + 580 + 2112 * 20 + 200_000));
    assert_eq!(Library::embedded().nand("TC58NVG5D2").unwrap().config.rules.order, PageOrder::Consecutive);
}

#[test]
fn chips_of_the_kernel_s_table_have_the_geometry_that_their_id_gives() {
    let mut compared = 0;
    let in_table = |it: &runner::parts::Figure| {
        it.key == "nand.id" && matches!(&it.provenance, Provenance::Source(text) if text.contains("nand_ids.c"))
    };
    for part in chips().filter(|part| part.head.figures.iter().any(in_table)) {
        let (by_id, own) = (by_nandsim_id(&part.id).unwrap().geometry, part.config.geometry);
        assert_eq!(
            (own.pebs, own.peb_bytes, own.page_bytes, own.oob_bytes),
            (by_id.pebs, by_id.peb_bytes, by_id.page_bytes, by_id.oob_bytes),
            "{}",
            part.head.name
        );
        compared += 1;
    }
    assert!(compared >= 7, "{compared}");
}

#[test]
fn an_unknown_name_names_a_near_one() {
    let error = Library::embedded().nand("K9F1G08U0F").unwrap_err();
    let near = ["K9F1G08U0D", "K9F1G08U0E"];
    assert!(
        matches!(&error, PartError::Unknown { nearest: Some(name), .. } if near.contains(&name.as_str())),
        "{error}"
    );
    assert!(Library::embedded().nand("970-evo").is_err() && Library::embedded().drive("K9F1G08U0D").is_err());
    assert_eq!(Library::embedded().drive("nvme-tlc").unwrap().head.name, "970-evo");
}

#[test]
fn what_is_wrong_with_a_chip_is_named() {
    let (_, good) = FILES.iter().find(|(file, _)| file.ends_with("K9F1G08U0D.toml")).unwrap();
    let good = good.replace("\"K9F1G08U0D\"", "\"mine\"");
    Library::embedded().clone().add("mine.toml", &good).unwrap();
    for (from, to, key) in [
        ("value = 1024", "value = -1", "nand.pebs"),
        ("value = 2048", "value = 2000", "nand.page_bytes"),
        ("value = 40.0", "value = nan", "nand.timing.read_us"),
        ("value = 40.0", "value = 0", "nand.timing.read_us"),
        ("\"sdr-4\"", "\"sdr-6\"", "nand.timing.bus"),
        ("\"sdr-4\"", "\"spi-104x4\"", "nand.timing.bus"),
        ("kind = \"slc\"", "kind = \"spi-nor\"", "nand.ecc.bits"),
        ("kind = \"slc\"", "kind = \"qlc\"", "kind"),
        ("pebs =", "pebbs =", "nand.pebbs"),
        ("0xec,", "256,", "nand.id"),
        ("value = 1, source", "value = 0, source", "nand.planes"),
        ("[sources]", "[sources]\nother = \"x\"", "sources.other"),
        ("value = 40.0, source = \"sheet\"", "value = 40.0", "nand.timing.read_us"),
        ("value = 40.0,", "value = 40.0, derived = \"x\",", "nand.timing.read_us"),
        ("name = \"mine\"", "name = \"my part\"", "name"),
        ("title", "titel", "titel"),
    ] {
        assert!(good.contains(from), "{from}");
        match Library::embedded().clone().add("mine.toml", &good.replacen(from, to, 1)) {
            Err(PartError::Value { file, key: found, .. }) => {
                assert_eq!((file.as_str(), found.as_str()), ("mine.toml", key))
            }
            other => panic!("{to}: {other:?}"),
        }
    }
}

#[test]
fn a_drive_s_capacity_takes_the_place_of_the_base_s_spare() {
    let text = "name = 'mine'\ntitle = ''\n[ssd]\ncapacity_bytes = { value = 1000000000, source = 'recalled' }\n";
    let mut library = Library::embedded().clone();
    library.add("mine.toml", text).unwrap();
    let ssd = &library.drive("mine").unwrap().table()["ssd"];
    assert!(ssd.get("capacity_bytes").is_some() && ssd.get("over_provisioning_percent").is_none());
    let part = library.part("mine").unwrap();
    assert!(library.from_base(part).all(|figure| figure.key != "ssd.over_provisioning_percent"));
}

#[test]
fn every_flash_part_is_raw_flash_with_its_geometry_rules_and_times() {
    let mut built = 0;
    for part in chips() {
        let text = format!("title = 't'\n[nand]\npart = '{}'\n", part.head.name);
        let experiment = Experiment::resolve(&text, &[]).unwrap();
        assert_eq!(experiment.nand.as_ref().unwrap().endurance, part.endurance);
        // UBI needs room for its headers, which the least NORs do not have.
        let Ok(Subject::Flash(flash)) = Subject::build(&experiment) else { continue };
        let (ours, config) = (&flash.array, &part.config);
        assert_eq!((ours.geometry, ours.timing, ours.rules), (config.geometry, config.timing, config.rules));
        assert_eq!(ours.ecc, config.ecc, "{}", part.head.name);
        built += 1;
    }
    assert!(built >= 34, "{built}");
}

#[test]
fn another_page_size_is_another_chip() {
    let text = "title = 't'\n[nand]\npart = 'K9F1G08U0D'\npage_bytes = 4096\nsubpage_bytes = 4096\n";
    let Ok(Subject::Flash(flash)) = Subject::build(&Experiment::resolve(text, &[]).unwrap()) else { panic!() };
    assert_eq!((flash.array.geometry.oob_bytes, flash.array.ecc), (128, None));
}

#[test]
fn the_drive_base_is_what_the_schema_has_by_default_and_every_drive_builds() {
    let plain = Experiment::resolve("title = 't'\n[ssd]\n", &[]).unwrap();
    let mut base = Experiment::resolve("title = 't'\n[ssd]\npart = 'base'\n", &[]).unwrap();
    base.ssd.as_mut().unwrap().part = plain.ssd.as_ref().unwrap().part.clone();
    assert_eq!(base, plain);
    // A default that changes in the schema alone would leave its provenance behind.
    let written = toml::Table::try_from(plain.ssd.unwrap()).unwrap();
    let table = &Library::embedded().drive(BASE).unwrap().table()["ssd"];
    let optional = ["part", "mib"];
    for (key, value) in flat(&written).into_iter().filter(|(key, _)| !optional.contains(&key.as_str())) {
        let own = key.split('.').try_fold(table, |at, name| at.get(name));
        assert_eq!(own, Some(&value), "{key}");
    }
    for (file, text) in FILES.iter().filter(|(file, _)| file.starts_with("drive/")) {
        Library::default().add(file, text).unwrap();
    }
}

/// Values of a table and the tables in it, by dotted key.
fn flat(table: &toml::Table) -> Vec<(String, toml::Value)> {
    let inner = |name: &str, table: &toml::Table| {
        flat(table).into_iter().map(|(key, value)| (format!("{name}.{key}"), value)).collect()
    };
    table
        .iter()
        .flat_map(|(name, value)| {
            value.as_table().map_or(vec![(name.clone(), value.clone())], |table| inner(name, table))
        })
        .collect()
}

#[test]
fn an_unknown_part_names_key_and_the_nearest() {
    let refused = |text: &str| Experiment::resolve(text, &[]).unwrap_err().to_string();
    let error = refused("title = 't'\n[nand]\npart = 'K9F1G08U0DX'\n");
    assert!(error.starts_with("key `nand.part`") && error.ends_with("did you mean `K9F1G08U0D`?"), "{error}");
    let error = refused("title = 't'\n[ssd]\npart = 'nvme-tcl'\n");
    assert!(error.starts_with("key `ssd.part`") && error.ends_with("did you mean `nvme-tlc`?"), "{error}");
}

#[test]
fn a_quarter_of_a_drive_s_blocks_leaves_the_same_spare_beside_what_collection_keeps() {
    let mut compared = 0;
    let page_config = |name: &str, sets: &[(String, String)]| {
        let text = format!("title = 't'\n[ssd]\npart = '{name}'\n");
        let experiment = Experiment::resolve(&text, sets).unwrap();
        // What is stored with a result builds the same drive.
        assert_eq!(Experiment::resolve(&experiment.to_toml(), &[]).unwrap(), experiment, "{name}");
        let Ok(Subject::Drive(drive)) = Subject::build(&experiment) else { panic!("{name}") };
        let Layer::Page(config) = &drive.layer else { return None };
        Some(config.clone())
    };
    for part in Library::embedded().parts().filter(|part| part.kind() == "drive") {
        let name = &part.head().name;
        let Some(full) = page_config(name, &[]) else { continue };
        let mut sets = vec![("ssd.blocks".to_owned(), (full.blocks / 4).to_string())];
        if let Some(booster) = Library::embedded().drive(name).unwrap().table()["ssd"].get("write_booster") {
            sets.push(("ssd.write_booster.mib".to_owned(), (booster["mib"].as_float().unwrap() / 4.0).to_string()));
        }
        let quarter = page_config(name, &sets).unwrap();
        let pages = |of: &PageConfig| f64::from(of.blocks) * f64::from(of.pages);
        let raw = |of: &PageConfig| pages(of) / f64::from(of.lpns);
        let alpha = |of: &PageConfig| (pages(of) - of.reserved_pages()) / f64::from(of.lpns);
        if name == BASE {
            assert!((raw(&full) / raw(&quarter) - 1.0).abs() < 1e-3, "a drive without the key has the raw spare");
            continue;
        }
        assert!((alpha(&full) / alpha(&quarter) - 1.0).abs() < 1e-3, "{name}: {} {}", alpha(&full), alpha(&quarter));
        assert!(raw(&quarter) / raw(&full) > 1.002, "{name}: {} {}", raw(&full), raw(&quarter));
        let background = |of: &PageConfig| f64::from(of.gc_background - of.gc_low);
        assert!((background(&full) / 4.0 - background(&quarter)).abs() <= 1.0, "{name}");
        compared += 1;
    }
    assert!(compared >= 9, "{compared}");
}

#[test]
fn a_part_wears_out_by_its_own_rating() {
    for part in Library::embedded().parts() {
        let Part::Nand(part) = part else { continue };
        let faults = part.faults(Seed(1));
        assert_eq!(faults.wear_out, Some(nand::WearOut::by_rating(part.endurance)), "{}", part.head.name);
    }
}
