//! Tells people of alarms.
//!
//! A [`Channel`] is one way to them, as the configuration has it. `due` decides which messages a channel is owed, from
//! what it was told before and the alarms that there are now; it is a pure function. `told` keeps what was told over a
//! restart. `payload` turns a [`Message`] into what a kind of channel reads, and `send` brings it there. [`keep_telling`]
//! does all of this for a running process: each channel has a task of its own, so that a channel that hangs holds up no
//! other one, and nothing else.
//!
//! No message, error or log line has a secret in it: the URLs of channels are secrets themselves. What messages say of
//! databases is hostile (a database can have any name), and can't become a header, a mention, a link or markup.

mod channel;
mod deliver;
mod due;
mod message;
mod payload;
mod read;
mod send;
#[cfg(test)]
mod tests;
mod told;

pub use channel::{Channel, Held, Security, Smtp, Template, Way};
pub use deliver::{keep_telling, try_out};
pub use due::Watched;
pub use message::{Event, Item, Message};
pub use payload::{Escape, Text};
pub use read::read;
pub use send::Sender;
pub use told::Store;
