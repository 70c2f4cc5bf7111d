//! How a request reached us: at which address, and by which of our doors.
//!
//! Never here: who asks; only whether the way alone already tells.

use std::net::SocketAddr;

/// A request's way in.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// The address that was reached; none for a Unix socket.
    pub local: Option<SocketAddr>,
    /// The door.
    pub door: Door,
}

/// A listener's purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// Clients and operators.
    Everybody,
    /// Clients alone: operators have a listener of their own.
    Clients,
    /// Operators alone, with a token.
    Operators,
    /// Operators whom the system vouches for: the control socket.
    Vouched(Peers),
}

/// Whom the control socket lets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peers {
    /// The daemon's own user, and root.
    Owner,
    /// Whoever the socket's permissions let in: its owner and its group.
    Permitted,
}

impl Door {
    /// Whether inference is served here.
    #[must_use]
    pub fn serves_clients(self) -> bool {
        matches!(self, Self::Everybody | Self::Clients)
    }

    /// Whether the control API is served here.
    #[must_use]
    pub fn serves_operators(self) -> bool {
        !matches!(self, Self::Clients)
    }

    /// Whether someone of this user may come in by a Unix socket.
    #[must_use]
    pub fn admits(self, user: u32, own: u32) -> bool {
        match self {
            Self::Vouched(Peers::Owner) => user == own || user == 0,
            Self::Vouched(Peers::Permitted) | Self::Everybody | Self::Clients | Self::Operators => true,
        }
    }
}

impl Arrival {
    /// Whether it comes from this machine.
    #[must_use]
    pub fn is_near(&self) -> bool {
        self.local.is_none_or(|local| local.ip().to_canonical().is_loopback())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_control_socket_of_a_home_admits_its_user_and_root_alone() {
        let door = Door::Vouched(Peers::Owner);
        assert!(door.admits(1000, 1000) && door.admits(0, 1000));
        assert!(!door.admits(1001, 1000) && !door.admits(1000, 0));
        assert!(Door::Vouched(Peers::Permitted).admits(1001, 1000));
    }

    #[test]
    fn each_door_serves_whom_it_is_for() {
        let served = [Door::Everybody, Door::Clients, Door::Operators, Door::Vouched(Peers::Owner)]
            .map(|door| (door.serves_clients(), door.serves_operators()));
        assert_eq!(served, [(true, true), (true, false), (false, true), (false, true)]);
    }
}
