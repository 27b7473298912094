//! Work on the runtime's blocking threads, and the error of a job that panicked.

use std::fmt;

use tokio::task::{JoinError, JoinHandle, spawn_blocking};

/// A job ended in a panic: a defect. Each crate's error has a variant for it.
#[derive(Debug)]
pub struct Panicked(JoinError);

impl Panicked {
    /// Whether the end of the runtime ended the job, not a panic.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a job ended in a panic: {}", self.0)
    }
}

impl std::error::Error for Panicked {}

impl From<JoinError> for Panicked {
    fn from(error: JoinError) -> Self {
        Self(error)
    }
}

/// Runs blocking work on one of the runtime's blocking threads. If the caller drops the future, the work still runs to
/// its end.
///
/// # Errors
/// The work's own error; a panic becomes [`Panicked`].
pub async fn blocking<T, E>(work: impl FnOnce() -> Result<T, E> + Send + 'static) -> Result<T, E>
where
    T: Send + 'static,
    E: From<Panicked> + Send + 'static,
{
    ended(spawn_blocking(work)).await
}

/// Waits for a job that returns a result.
///
/// # Errors
/// The job's own error; a panic becomes [`Panicked`].
pub async fn ended<T, E: From<Panicked>>(job: JoinHandle<Result<T, E>>) -> Result<T, E> {
    job.await.map_err(Panicked::from)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    enum Error {
        Own,
        Internal(String),
    }

    impl From<Panicked> for Error {
        fn from(panicked: Panicked) -> Self {
            Self::Internal(panicked.to_string())
        }
    }

    #[tokio::test]
    async fn a_result_comes_back_and_a_panic_is_an_error() {
        assert_eq!(blocking(|| Ok::<_, Error>(7)).await, Ok(7));
        assert_eq!(blocking(|| Err::<(), _>(Error::Own)).await, Err(Error::Own));
        let ended = blocking::<(), Error>(|| panic!("a defect")).await;
        let Err(Error::Internal(said)) = ended else { panic!("{ended:?}") };
        assert!(said.starts_with("a job ended in a panic: ") && said.contains("a defect"), "{said}");
    }
}
