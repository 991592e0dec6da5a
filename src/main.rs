//! The program `dlcost`.

use std::process::ExitCode;

fn main() -> ExitCode {
    dlcost::cli::main()
}
