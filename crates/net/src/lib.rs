//! What connections to database servers have in common, whatever protocol they speak.
//!
//! The rooms: `url` (takes the text of a server's URL apart), `tls` (checks a server's certificate as strictly as the user
//! asks), `silence` (notices that a server's machine is gone).

mod silence;
pub mod tls;
mod url;

pub use silence::{BETWEEN, QUESTIONS, SILENCE, notice_silence};
pub use url::{Unreadable, Url};
