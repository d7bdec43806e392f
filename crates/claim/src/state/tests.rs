//! The rules of the machine, each as a test that can fail. What each was seen red by: `docs/adr/0003-state-machine.md`.

mod closing;
mod doc;
mod evidence;
pub(crate) mod kit;
mod legality;
mod looks;
mod rulings;
mod settles;
mod takings;
mod walk;
mod walks;
mod world;
