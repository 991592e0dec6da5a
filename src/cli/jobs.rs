//! Work on several files at once. Results keep the order of the items; a panic spoils its own item only.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::diagnostics::Code;

/// Deep graphs are walked with a depth counter, whose limit this stack holds with room to spare.
const STACK_BYTES: usize = 16 << 20;

/// How often the caller hears of time passing.
const TICK: Duration = Duration::from_millis(100);

thread_local! {
    /// What the last panic of this thread said.
    static LAST_PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// A panic that was caught.
#[derive(Debug)]
pub(super) struct Panic(String);

impl Panic {
    /// The diagnostic for standard error.
    pub(super) fn describe(&self, path: &str) -> String {
        let (number, name) = (Code::InternalError.number(), Code::InternalError.name());
        format!(
            "{path}: error[{number} {name}]: {}\n  help: this is a fault of dlcost {}; please report it with the file",
            self.0,
            env!("CARGO_PKG_VERSION")
        )
    }
}

/// Keeps what a panic says for [`Panic`] instead of printing it.
pub(super) fn catch_panics_quietly() {
    panic::set_hook(Box::new(|info| {
        let message = payload_text(info.payload());
        let at = info.location().map_or_else(String::new, |at| format!(" ({}:{})", at.file(), at.line()));
        LAST_PANIC.with(|last| *last.borrow_mut() = Some(format!("{message}{at}")));
    }));
}

/// Runs `work` and turns a panic into a value.
pub(super) fn guard<T>(work: impl FnOnce() -> T) -> Result<T, Panic> {
    // What the work has borrowed is dropped or thrown away with the item, never looked at again.
    panic::catch_unwind(AssertUnwindSafe(work)).map_err(|payload| {
        let said = LAST_PANIC.with(|last| last.borrow_mut().take());
        Panic(said.unwrap_or_else(|| payload_text(payload.as_ref())))
    })
}

fn payload_text(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "panic".to_owned()
    }
}

/// Does the work of one item on another thread, which has the stack that deep graphs need.
pub(super) fn alone<R: Send>(work: impl Fn() -> R + Sync) -> Result<R, Panic> {
    let done = map_in_order(&[()], 1, |()| work(), |_| ()).into_iter().next();
    done.unwrap_or_else(|| Err(Panic("the work gave no result".to_owned())))
}

/// Applies `work` to every item on `jobs` threads. `watch` hears on this thread how many are done, after each one and
/// as time passes.
pub(super) fn map_in_order<I: Sync, R: Send>(
    items: &[I],
    jobs: usize,
    work: impl Fn(&I) -> R + Sync,
    mut watch: impl FnMut(usize),
) -> Vec<Result<R, Panic>> {
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    let mut results: Vec<Option<Result<R, Panic>>> = Vec::new();
    results.resize_with(items.len(), || None);
    thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, items.len().max(1)) {
            let (sender, next, work) = (sender.clone(), &next, &work);
            let run = move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { break };
                    let result = guard(|| work(item));
                    if sender.send((index, result)).is_err() {
                        break;
                    }
                }
            };
            // Where the system gives no more threads, those that run do all the work.
            let _ = thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, run);
        }
        drop(sender);
        let mut done = 0;
        loop {
            match receiver.recv_timeout(TICK) {
                Ok((index, result)) => {
                    if let Some(slot) = results.get_mut(index) {
                        *slot = Some(result);
                    }
                    done += 1;
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
            watch(done);
        }
    });
    results
        .into_iter()
        .map(|result| result.unwrap_or_else(|| Err(Panic("no thread could be started".to_owned()))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_the_order_and_panics_spoil_one_item() {
        let items: Vec<usize> = (0..100).collect();
        for jobs in [1, 7, 1000] {
            let results = map_in_order(
                &items,
                jobs,
                |&item| {
                    assert!(item != 13, "thirteen");
                    item * 2
                },
                |_| (),
            );
            for (item, result) in items.iter().zip(&results) {
                match result {
                    Ok(double) => assert_eq!(*double, item * 2),
                    Err(panic) => {
                        assert_eq!(*item, 13);
                        let text = panic.describe("m.onnx");
                        assert!(text.starts_with("m.onnx: error[DL0001 internal-error]: thirteen"), "{text}");
                    }
                }
            }
            assert!(results[13].is_err());
        }
        assert!(map_in_order(&[] as &[u8], 4, |_| (), |_| ()).is_empty());
    }
}
