//! How many requests may run at once, in all and for each client.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::gateway::access::Caller;
use crate::gateway::error::ApiError;

/// The bounds in force.
#[derive(Debug)]
pub struct Bounds {
    all: Option<Arc<Semaphore>>,
    clients: Mutex<HashMap<Arc<str>, ClientBound>>,
}

/// A size as this machine counts.
#[must_use]
pub fn saturated(size: u64) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}

/// A client's bound, and how many it was made for.
type ClientBound = (u32, Arc<Semaphore>);

impl Bounds {
    /// At most this many at once; `None` = no bound.
    #[must_use]
    pub fn new(most: Option<u32>) -> Self {
        Self { all: most.map(|most| Arc::new(Semaphore::new(most as usize))), clients: Mutex::default() }
    }

    /// A place for one more request of this caller.
    ///
    /// # Errors
    /// When there is none.
    pub fn enter(&self, caller: &Caller) -> Result<Vec<OwnedSemaphorePermit>, ApiError> {
        let mut permits = Vec::with_capacity(2);
        if let Some(all) = &self.all {
            let permit = Arc::clone(all).try_acquire_owned();
            permits.push(permit.map_err(|_| {
                ApiError::Overloaded("too many requests at once ([server] max_concurrent_requests); try again")
            })?);
        }
        if let Some((name, most)) = caller.client.as_ref().and_then(|c| Some((&c.name, c.max_concurrent?))) {
            let permit = self.of_client(name, most).try_acquire_owned();
            permits.push(permit.map_err(|_| {
                ApiError::ClientBusy(format!("this client may have {most} requests at once; try again"))
            })?);
        }
        Ok(permits)
    }

    /// A client's bound; begun anew when a reload changed it.
    fn of_client(&self, name: &Arc<str>, most: u32) -> Arc<Semaphore> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = || (most, Arc::new(Semaphore::new(most as usize)));
        let bound = clients.entry(Arc::clone(name)).or_insert_with(fresh);
        if bound.0 != most {
            *bound = fresh();
        }
        Arc::clone(&bound.1)
    }
}
