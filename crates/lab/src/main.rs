//! The binary `lab`. In: the command line; out: an exit code. All else is in the library.

use clap::Parser;
use lab::flags::{Command, Flags};

fn main() {
    match Flags::parse().command {
        Command::Engine(_) | Command::Load(_) => (),
    }
}
