//! Simulated providers: the real protocols, quotas that really fill, faults on request; nobody's credential.
