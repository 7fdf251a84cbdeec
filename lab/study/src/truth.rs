//! A page of all verdicts: what was calibrated, what is predicted, how far off, against what.

use runner::report::four_digits;

use super::{Claim, Judgement, Kind, Relation, Verdict};

/// The page, in Markdown. Self-checks are counted, and named where they fail; every other claim has a line.
pub fn page(judgements: &[Judgement]) -> String {
    let mut page = String::from(
        "# What is predicted, and how far off\n\n\
         Each study, run whole. `make truth` writes this page, from the logs of guests that are in the tree.\n\n\
         A *published* number, or order, is in a document. A *derived* one follows from arithmetic or theory. What the model was\n\
         *calibrated* on proves nothing. A *self-check* follows from the model's own rules, and guards them. Off is (ours - expected) /\n\
         expected. Tolerances, and why a claim misses, are in the study's `study.toml` and `SOURCE.md`.\n\n",
    );
    let version = judgements.first().map_or(0, |judgement| judgement.model_version);
    page += &format!("Model version {version}.\n\n");
    page += "| study | published: hit, miss | derived: hit, miss | calibrated | not judged | self-checks: hold, fail | \
             farthest off |\n|---|---|---|---|---|---|---|\n";
    for judgement in judgements {
        page += &row(judgement);
    }
    for judgement in judgements {
        page += &section(judgement);
    }
    page
}

/// The numbers of the page, by which a test holds it against runs: study, claim, and our value as printed.
pub fn values(page: &str) -> Vec<(&str, &str, &str)> {
    let mut study = "";
    let mut values = Vec::new();
    for line in page.lines() {
        if let Some(name) = line.strip_prefix("## ") {
            study = name;
        }
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        if let ([claim, _, ours, _, _], false) = (&cells[..], study.is_empty())
            && *claim != "claim"
        {
            values.push((study, *claim, *ours));
        }
    }
    values
}

/// Our value of a claim as the page prints it.
pub fn ours(claim: &Claim) -> String {
    claim.ours.map_or("-".to_owned(), four_digits)
}

fn row(judgement: &Judgement) -> String {
    let count = |kind: Kind, verdict: Verdict| {
        judgement.claims.iter().filter(|claim| claim.kind == kind && claim.verdict == verdict).count()
    };
    let two = |kind: Kind| match [Verdict::Hit, Verdict::Miss].map(|verdict| count(kind, verdict)) {
        [0, 0] => "-".to_owned(),
        [hit, miss] => format!("{hit}, {miss}"),
    };
    let all = |verdict: Verdict| match judgement.count(verdict) {
        0 => "-".to_owned(),
        count => count.to_string(),
    };
    let judged = judgement
        .claims
        .iter()
        .filter(|claim| claim.kind != Kind::SelfCheck && matches!(claim.verdict, Verdict::Hit | Verdict::Miss));
    let farthest = judged.filter_map(off).max_by(|one, other| one.abs().total_cmp(&other.abs()));
    format!(
        "| [{name}](#{name}) | {} | {} | {} | {} | {} | {} |\n",
        two(Kind::Published),
        two(Kind::Derived),
        all(Verdict::Calibrated),
        all(Verdict::NotJudged),
        two(Kind::SelfCheck),
        farthest.map_or("-".to_owned(), percent),
        name = judgement.study,
    )
}

fn section(judgement: &Judgement) -> String {
    let name = &judgement.study;
    let mut text = format!("\n## {name}\n\n{}\n\n", judgement.question);
    if !judgement.against.is_empty() {
        text += &format!("Against {}. ", judgement.against);
    }
    text += &format!("More in [SOURCE.md](../studies/{name}/SOURCE.md).\n");
    let shown = |claim: &&Claim| claim.kind != Kind::SelfCheck || claim.verdict == Verdict::Miss;
    let mut claims = judgement.claims.iter().filter(shown).peekable();
    if claims.peek().is_some() {
        text += "\n| claim | expected | ours | off | verdict |\n|---|---|---|---|---|\n";
    }
    for claim in claims {
        let verdict = match claim.verdict {
            Verdict::Hit => "hit",
            Verdict::Miss => "**miss**",
            Verdict::Calibrated => "calibrated",
            Verdict::NotJudged => "not judged",
        };
        let off = off(claim).map_or("-".to_owned(), percent);
        let (id, ours, kind) = (claim.id.replace('|', "\\|"), ours(claim), claim.kind.name());
        text += &format!("| {id} | {} | {ours} | {off} | {verdict}, {kind} |\n", expected(claim));
    }
    let mut missing = judgement.missing_logs.iter().peekable();
    if let Some(first) = missing.peek() {
        let command = first.command.clone();
        let runs: Vec<&str> = missing.map(|log| log.run.as_str()).collect();
        text += &format!("\nNot judged: the logs of {} are not in the tree. `{command}` makes one.\n", runs.join(", "));
    }
    text
}

/// What is asked of our number: the number with its tolerance, or the bound.
fn expected(claim: &Claim) -> String {
    match (claim.relation, claim.expected) {
        (Relation::Within(_), Some(number)) => format!("{} {}", four_digits(number), claim.relation),
        (relation, _) => relation.to_string(),
    }
}

/// How far ours lies from the number, as a share of it; `None` for a bound, and where there is no such share.
fn off(claim: &Claim) -> Option<f64> {
    match (claim.relation, claim.expected, claim.ours) {
        (Relation::Within(_), Some(expected), Some(ours)) if expected != 0.0 => {
            Some((ours - expected) / expected.abs())
        }
        _ => None,
    }
}

fn percent(share: f64) -> String {
    format!("{:+.1} %", share * 100.0).replace("+0.0 %", "0.0 %").replace("-0.0 %", "0.0 %")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(id: &str, kind: Kind, relation: Relation, [expected, ours]: [f64; 2], verdict: Verdict) -> Claim {
        Claim {
            id: id.to_owned(),
            text: "waf(a)".to_owned(),
            kind,
            expected: Some(expected),
            relation,
            ours: Some(ours),
            verdict,
            stated: None,
            reason: None,
        }
    }

    fn judgement() -> Judgement {
        let tenth = Relation::Within(0.1);
        Judgement {
            study: "made-up".to_owned(),
            question: "How much?".to_owned(),
            against: "a table".to_owned(),
            model_version: 7,
            seed: 1,
            quick: false,
            fingerprints: Vec::new(),
            missing_logs: Vec::new(),
            claims: vec![
                claim("near", Kind::Published, tenth, [100.0, 105.0], Verdict::Hit),
                claim("far", Kind::Derived, tenth, [100.0, 80.0], Verdict::Miss),
                claim("fitted", Kind::Published, tenth, [100.0, 500.0], Verdict::Calibrated),
                claim("less", Kind::Published, Relation::Below(7.0), [6.0, 3.0], Verdict::Hit),
                claim("holds", Kind::SelfCheck, tenth, [100.0, 100.0], Verdict::Hit),
                claim("fails", Kind::SelfCheck, tenth, [100.0, 300.0], Verdict::Miss),
            ],
            tables: Vec::new(),
            figures: Vec::new(),
            bars: Vec::new(),
        }
    }

    #[test]
    fn a_page_has_a_line_for_each_claim_but_self_checks_that_hold() {
        let page = page(&[judgement()]);
        assert!(page.contains("\n| [made-up](#made-up) | 2, 0 | 0, 1 | 1 | - | 1, 1 | -20.0 % |\n"), "{page}");
        let lines = "| near | 100 ± 10 % | 105 | +5.0 % | hit, published |\n\
                     | far | 100 ± 10 % | 80 | -20.0 % | **miss**, derived |\n\
                     | fitted | 100 ± 10 % | 500 | +400.0 % | calibrated, published |\n\
                     | less | < 7 | 3 | - | hit, published |\n\
                     | fails | 100 ± 10 % | 300 | +200.0 % | **miss**, self-check |\n";
        assert!(page.contains(&format!("|---|---|---|---|---|\n{lines}")) && !page.contains("holds |"), "{page}");
        assert!(page.contains("Against a table.") && page.contains("Model version 7."), "{page}");
    }

    #[test]
    fn values_are_those_of_the_lines() {
        let page = page(&[judgement()]);
        let all = [("near", "105"), ("far", "80"), ("fitted", "500"), ("less", "3"), ("fails", "300")];
        assert_eq!(values(&page), all.map(|(claim, ours)| ("made-up", claim, ours)));
    }

    #[test]
    fn how_far_off_is_a_share_of_the_size_of_the_number() {
        let off_of = |two| off(&claim("a", Kind::Published, Relation::Within(0.1), two, Verdict::Hit));
        let all = [[-100.0, -105.0], [-100.0, -95.0], [100.0, 95.0], [0.0, 1.0]].map(off_of);
        assert_eq!(all, [Some(-0.05), Some(0.05), Some(-0.05), None]);
    }

    #[test]
    fn what_was_calibrated_is_counted_apart() {
        let counts = ["published: 2 hit, 0 miss, 1 calibrated", "derived: 0 hit, 1 miss, 0 calibrated"];
        assert_eq!(judgement().counts(), [&counts[..], &["self-checks: 1 hold, 1 fail"]].concat());
    }
}
