//! The explain pages keep their word: an example in ONNX text raises the code of its page, the fix does not.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::Path;

use dlcost::diagnostics::{Code, Level};
use dlcost::engine::{self, CheckOptions, Input};
use dlcost::options::{self, target};
use dlcost::report::Finding;

/// A fenced block.
struct Block {
    language: String,
    /// What stands behind the language: options of `dlcost check`.
    options: String,
    text: String,
}

/// The blocks of a section.
fn blocks(page: &str, section: &str) -> Vec<Block> {
    let heading = format!("## {section}");
    let mut blocks = Vec::new();
    let mut inside = false;
    let mut open: Option<Block> = None;
    for line in page.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(block), None) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, Some(info)) if inside => {
                let (language, options) = info.split_once(' ').unwrap_or((info, ""));
                open = Some(Block { language: language.to_owned(), options: options.to_owned(), text: String::new() });
            }
            (None, _) if line.starts_with("## ") => inside = line == heading,
            (None, _) => {}
        }
    }
    assert!(open.is_none(), "a block is not closed");
    blocks
}

fn check_options(text: &str) -> CheckOptions {
    let mut check = CheckOptions::default();
    let mut words = text.split_whitespace();
    while let Some(option) = words.next() {
        let value = words.next().unwrap_or_else(|| panic!("{option} has no value"));
        match option {
            "--batch" => check.batch = Some(options::batch(value).unwrap()),
            "--mode" => check.mode = options::mode(value).unwrap(),
            "--dim" => check.dims.push(options::dim(value).unwrap()),
            "--input-shape" => check.input_shapes.push(options::input_shape(value).unwrap()),
            "--input" => check.inputs.push(options::input(value, Path::new("")).unwrap()),
            "--gpu" => {
                let name = target::gpu(value, Path::new("")).unwrap();
                check.request.gpus = dlcost::target::choose(&[name], &[]).unwrap();
            }
            "--precision" => check.request.precision = Some(target::precision(value).unwrap()),
            "--optimizer" => check.request.optimizer = Some(target::optimizer(value).unwrap()),
            "--replicas" => check.request.replicas = Some(target::replicas(value).unwrap()),
            "--strategy" => check.request.strategy = Some(target::strategy(value).unwrap()),
            other => panic!("{other} is not known here"),
        }
    }
    check
}

/// What a check of a block finds; `None` for blocks that are no models.
fn findings(block: &Block) -> Option<Vec<Finding>> {
    // Other JSON is a profile or a part of a report.
    let keras = block.language == "json" && block.text.contains("class_name");
    if block.language != "onnxtxt" && !keras {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(format!("example.{}", block.language));
    std::fs::write(&path, &block.text).unwrap();
    let model = engine::check(&Input::Path(path), "example.onnxtxt", &check_options(&block.options)).unwrap().remove(0);
    Some(model.diagnostics)
}

fn told(findings: &[Finding]) -> String {
    let lines = findings.iter().map(|finding| format!("{} {}: {}", finding.level, finding.code, finding.message));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn every_page_has_its_title_and_sections_in_order() {
    for &code in Code::ALL {
        let page = code.page();
        assert!(page.starts_with(&format!("# {code}\n")), "{code}");
        let sections: Vec<&str> = page.lines().filter(|line| line.starts_with("## ")).collect();
        assert_eq!(sections, ["## What", "## Why", "## Example", "## Fix"], "{code}");
        assert!(!blocks(page, "Example").is_empty(), "{code} has no example");
        for section in page.split("\n## ").skip(1) {
            assert!(section.lines().skip(1).any(|line| !line.is_empty()), "{code} has an empty section");
        }
        assert!(page.lines().all(|line| line.chars().count() <= 120), "{code} has a long line");
    }
}

#[test]
fn examples_raise_their_code_and_fixes_do_not() {
    let mut failures = Vec::new();
    for &code in Code::ALL {
        for block in blocks(code.page(), "Example") {
            let Some(findings) = findings(&block) else { continue };
            if !findings.iter().any(|finding| finding.code == code.number()) {
                failures.push(format!("{code}: the example does not raise it, but\n{}", told(&findings)));
            }
        }
        for block in blocks(code.page(), "Fix") {
            let Some(findings) = findings(&block) else { continue };
            let wrong = |finding: &Finding| finding.code == code.number() || finding.level == Level::Error;
            if findings.iter().any(wrong) {
                failures.push(format!("{code}: the fix raises\n{}", told(&findings)));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}
