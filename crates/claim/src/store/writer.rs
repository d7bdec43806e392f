//! The thread and runtime on which every statement of the store runs.
//!
//! A future that a caller may drop can cut a commit in the middle, and sqlx then hands the poisoned connection to the
//! next borrower. So statements run in tasks of a runtime of the store's own, on connections that nobody else borrows;
//! the caller only waits for an answer, and dropping that wait cuts nothing.

use std::sync::Mutex;
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::error::Error;

/// One thread, one runtime, any number of tasks.
pub(crate) struct Writer {
    handle: Handle,
    tasks: TaskTracker,
    stop: Mutex<Option<(oneshot::Sender<()>, thread::JoinHandle<()>)>>,
}

impl Writer {
    /// Starts the thread.
    pub(crate) fn start() -> std::io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::Builder::new().name("earmark-store".into()).spawn(move || {
            // Ends when `stop` is sent or dropped; tasks still running are then dropped, and their claims left to
            // the sweep.
            let _ = runtime.block_on(stopped);
        })?;
        Ok(Self { handle, tasks: TaskTracker::new(), stop: Mutex::new(Some((stop, thread))) })
    }

    /// Keeps the writer open until it is dropped: `close` waits for it, and for what is spawned meanwhile.
    pub(crate) fn open(&self) -> Result<TaskTrackerToken, Error> {
        // Counted before the question is asked, so that `close` cannot pass between the question and the task.
        let counted = self.tasks.token();
        if self.tasks.is_closed() { Err(Error::Closed) } else { Ok(counted) }
    }

    /// Where tasks are counted for which `close` waits.
    pub(crate) fn tasks(&self) -> TaskTracker {
        self.tasks.clone()
    }

    /// Runs a task to its end, for nobody in particular.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn_on(task, &self.handle);
    }

    /// Runs a task for which `close` does not wait: one that only watches.
    pub(crate) fn spawn_watch(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(task);
    }

    /// Runs a task to its end, whether or not the caller goes on waiting.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        task: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        let spawned = {
            // Not longer than this, since the caller may never poll again.
            let _open = self.open()?;
            self.tasks.spawn_on(task, &self.handle)
        };
        match spawned.await {
            Ok(answer) => answer,
            Err(join) if join.is_panic() => std::panic::resume_unwind(join.into_panic()),
            Err(_) => Err(Error::Closed),
        }
    }

    /// Waits for every task to end, runs `last`, then stops the thread. New tasks are refused from now on.
    pub(crate) async fn close(&self, last: impl Future<Output = ()> + Send + 'static) {
        self.tasks.close();
        self.tasks.wait().await;
        let stop = self.stop.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        if let Some((stop, thread)) = stop {
            let _ = self.handle.spawn(last).await;
            let _ = stop.send(());
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
    }
}
