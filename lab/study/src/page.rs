//! The document of studies, which the page draws.

use runner::report::{Heading, Named, document, shortened};
use serde_json::{Value, json};

use crate::{Finished, Judgement};

/// The document of studies, their runs and their pictures.
pub fn of(title: &str, finished: &[Finished]) -> Value {
    let runs: Vec<Named<'_>> =
        finished.iter().flat_map(|done| &done.runs).map(|(title, found)| (title.clone(), found)).collect();
    let judgements: Vec<&Judgement> = finished.iter().map(|done| &done.judgement).collect();
    // Several studies have their questions beside their answers.
    let question = if let [judgement] = judgements[..] { &judgement.question } else { "" };
    let fingerprints = judgements.iter().flat_map(|judgement| &judgement.fingerprints);
    let heading = Heading {
        title,
        question,
        seed: judgements.first().map_or(1, |judgement| judgement.seed),
        fingerprint: shortened(fingerprints.map(|(_, fingerprint)| fingerprint)),
    };
    let mut document = document(&heading, &runs);
    let study = |done: &Finished| {
        let mut study = json!(done.judgement);
        study["pictures"] = json!(done.pictures);
        study
    };
    document["studies"] = finished.iter().map(study).collect();
    document
}
