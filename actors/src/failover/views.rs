//! All accounts by their number, and beside them a brief of what every plan reads of each.
//!
//! Accounts are large; their briefs are small and lie side by side, so that a plan over a thousand accounts is one sweep
//! over little memory. A brief is made when a plan first wants it. Whoever may change an account drops its briefs, since
//! it gets at the account only through [`Views::get_mut`], [`Views::slot`] or [`Views::each_mut`].

use std::cell::{Ref, RefCell};

use super::view::{Brief, View};
use crate::clock::Timestamp;
use crate::id::{AccountId, ModelScope};
use crate::roster::PoolSettings;

/// The briefs for one model scope.
type Briefs = Vec<RefCell<Option<Brief>>>;

/// All accounts.
#[derive(Debug, Default)]
pub(super) struct Views {
    views: Vec<Option<View>>,
    /// By model scope: a plan reads those of one alone.
    briefs: [Briefs; 2],
}

impl Views {
    pub(super) fn get(&self, account: AccountId) -> Option<&View> {
        self.views.get(at(account)).and_then(Option::as_ref)
    }

    pub(super) fn get_mut(&mut self, account: AccountId) -> Option<&mut View> {
        self.forget(account);
        self.views.get_mut(at(account))?.as_mut()
    }

    /// The place of an account, made if it is not there.
    pub(super) fn slot(&mut self, account: AccountId) -> &mut Option<View> {
        let at = at(account);
        if self.views.len() <= at {
            self.views.resize_with(at + 1, || None);
            self.briefs.iter_mut().for_each(|briefs| briefs.resize_with(at + 1, RefCell::default));
        }
        self.forget(account);
        &mut self.views[at]
    }

    fn forget(&mut self, account: AccountId) {
        for kept in self.briefs.iter_mut().filter_map(|briefs| briefs.get_mut(at(account))) {
            *kept.get_mut() = None;
        }
    }

    pub(super) fn each(&self) -> impl Iterator<Item = &View> {
        self.views.iter().flatten()
    }

    pub(super) fn each_mut(&mut self) -> impl Iterator<Item = &mut View> {
        self.briefs.iter_mut().flatten().for_each(|kept| *kept.get_mut() = None);
        self.views.iter_mut().flatten()
    }

    /// The brief of an account, as it is now. All who look at one time look at the same moment: a brief that is looked at
    /// is current, and is not made anew meanwhile.
    pub(super) fn brief(
        &self,
        account: AccountId,
        scope: ModelScope,
        settings: &PoolSettings,
        now: Timestamp,
    ) -> Option<Ref<'_, Brief>> {
        let cell = self.briefs[scope as usize].get(at(account))?;
        if let Ok(kept) = Ref::filter_map(cell.borrow(), |kept| kept.as_ref().filter(|brief| brief.is_current(now))) {
            return Some(kept);
        }
        let made = self.get(account)?.brief(settings, scope, now);
        cell.replace(Some(made));
        Ref::filter_map(cell.borrow(), Option::as_ref).ok()
    }
}

fn at(account: AccountId) -> usize {
    account.0 as usize
}
