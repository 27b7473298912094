//! The second session of a proof. `guard` in `schema` says what runs in it.

use crate::client::Connection;

/// The superuser's session beside that of the plain role.
pub(crate) struct Guard {
    pub(crate) keeper: Connection,
    /// The plain role.
    pub(crate) loader: String,
    /// Statements for the end: rights to call what the server keeps to itself.
    pub(crate) rights: Vec<Vec<u8>>,
    /// Statements behind these: about event triggers. Before version 17 nothing turns off those that are there, and a grant of the
    /// superuser's would call them.
    pub(crate) triggers: Vec<Vec<u8>>,
    /// The statement since which its session grants as somebody else, if it does.
    pub(crate) as_another: Option<Vec<u8>>,
}

impl Guard {
    /// Ends its session.
    pub(crate) async fn close(self) {
        self.keeper.close().await;
    }
}
