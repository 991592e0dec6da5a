//! Chores of the repository; `cargo xtask help` lists them.

mod conformance;
mod differential;
#[cfg(any(test, feature = "train"))]
#[cfg_attr(not(feature = "train"), allow(dead_code, reason = "the light build tests it and does not run it"))]
mod eval;
mod fill;
mod fixtures;
mod fuzz;
mod generate;
#[cfg(not(all(feature = "train", feature = "tract", feature = "contest")))]
mod heavy;
mod keras_classes;
mod large;
mod layout;
mod messages;
mod mutate;
mod operators;
mod pages;
#[cfg(feature = "train")]
mod parquets;
mod python;
mod samples;
#[path = "../../benches/synthetic/mod.rs"]
mod synthetic;
mod tidy;
#[cfg(feature = "train")]
mod train;
mod truth;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// What a chore gives: whether it found everything as it should be.
type Outcome = Result<bool, Box<dyn Error>>;

/// Chores of the dlcost repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Holds predictions against tables of measurements.
    #[cfg(not(feature = "train"))]
    Eval(heavy::Arguments),
    #[cfg(feature = "train")]
    Eval(eval::Arguments),
    Conformance(conformance::Arguments),
    Differential(differential::Arguments),
    KerasClasses(keras_classes::Arguments),
    /// Makes predictors from tables of measurements.
    #[cfg(not(feature = "train"))]
    Train(heavy::Arguments),
    #[cfg(feature = "train")]
    Train(train::Arguments),
    Tidy(tidy::Arguments),
    Fixtures(fixtures::Arguments),
    Fuzz(fuzz::Arguments),
    Large(large::Arguments),
    Truth(truth::Arguments),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        #[cfg(not(feature = "train"))]
        Command::Eval(arguments) => heavy::run("eval", &arguments),
        #[cfg(feature = "train")]
        Command::Eval(arguments) => eval::run(&arguments),
        Command::Conformance(arguments) => conformance::run(&arguments),
        Command::Differential(arguments) => differential::run(&arguments),
        Command::KerasClasses(arguments) => keras_classes::run(&arguments),
        #[cfg(not(feature = "train"))]
        Command::Train(arguments) => heavy::run("train", &arguments),
        #[cfg(feature = "train")]
        Command::Train(arguments) => train::run(&arguments),
        Command::Tidy(arguments) => tidy::run(&arguments),
        Command::Fixtures(arguments) => fixtures::run(&arguments),
        Command::Fuzz(arguments) => fuzz::run(&arguments),
        Command::Large(arguments) => large::run(&arguments),
        Command::Truth(arguments) => truth::run(&arguments),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// The folder of the repository.
fn root() -> PathBuf {
    let manifest = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().map_or_else(|| PathBuf::from("."), PathBuf::from)
}

/// The folder with model files and their truth that some checkouts stand beside.
fn shared() -> PathBuf {
    root().join("../shared")
}
