//! Restores of a database of a configuration into a file or folder, as a running process does them.

use seawall_core::{Failure, RestoreRequest, Restored, TaskKind};

use crate::ask;
use crate::database::DatabaseConfig;
use crate::hooks::Operation;
use crate::open::Opener;

impl Opener {
    /// Restores from the vault with the newest point that the request allows, between the hooks of the database, and notes it in the
    /// journal.
    ///
    /// # Errors
    /// Those of [`seawall_core::Files::restore`], `hook.refused`, and those of opening the vaults.
    pub async fn restore_file(&self, database: &DatabaseConfig, request: &RestoreRequest) -> Result<Restored, Failure> {
        let target = request.output.display().to_string();
        let task = self.journal().begin(TaskKind::Restore, &database.name, &target);
        let restore = |one: DatabaseConfig| {
            let progress = task.progress();
            async move { ask::files(&*self.database(&one).await?)?.restore(request, progress).await }
        };
        let work = async {
            let (choice, restored) = self.with_newest(database, &request.when, restore).await?;
            choice.tell();
            Ok(restored)
        };
        let done = database.hooks.around(Operation::Restore, &database.about(target), work).await;
        task.end(&done, |Restored { point, output, .. }| format!("{} is {}", output.display(), point.position));
        done
    }
}
