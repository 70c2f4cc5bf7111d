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

/// One account's briefs: one for each model scope.
type Briefs = [RefCell<Option<Brief>>; 2];

/// All accounts.
#[derive(Debug, Default)]
pub(super) struct Views {
    views: Vec<Option<View>>,
    briefs: Vec<Briefs>,
}

impl Views {
    pub(super) fn get(&self, account: AccountId) -> Option<&View> {
        self.views.get(at(account)).and_then(Option::as_ref)
    }

    pub(super) fn get_mut(&mut self, account: AccountId) -> Option<&mut View> {
        let view = self.views.get_mut(at(account))?;
        self.briefs[at(account)] = Briefs::default();
        view.as_mut()
    }

    /// The place of an account, made if it is not there.
    pub(super) fn slot(&mut self, account: AccountId) -> &mut Option<View> {
        let at = at(account);
        if self.views.len() <= at {
            self.views.resize_with(at + 1, || None);
            self.briefs.resize_with(at + 1, Briefs::default);
        }
        self.briefs[at] = Briefs::default();
        &mut self.views[at]
    }

    pub(super) fn each(&self) -> impl Iterator<Item = &View> {
        self.views.iter().flatten()
    }

    pub(super) fn each_mut(&mut self) -> impl Iterator<Item = &mut View> {
        self.briefs.fill_with(Briefs::default);
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
        let cell = &self.briefs.get(at(account))?[scope as usize];
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
