//! Setbacks: why an endpoint gave no result, and what that shows about its health. A [`Tally`] combines several
//! into one fault.

use std::fmt;

use bursar_core::networks::ChainId;

use crate::ports::{ChainFault, EndpointLabel};
use crate::rpc::endpoint::Endpoint;
use crate::rpc::health::Health;

/// Why an endpoint gave no result.
#[derive(Debug)]
pub(super) enum Setback {
    /// An error that every other node would return too, so no other node is tried.
    Final(ChainFault),
    /// The node refused the request; another node may accept it.
    Rejected {
        code: i64,
        message: String,
    },
    /// The node refused a request that even a healthy node may refuse (`MethodKind::Refusable`); another node may
    /// accept
    /// it.
    Declined {
        code: i64,
        message: String,
    },
    /// The response is not a valid answer.
    Malformed(String),
    /// There was no usable response.
    Unreachable(String),
    WrongChain {
        answered: ChainId,
    },
    /// Skipped because of earlier failures.
    Cooling,
    /// The total time of the request ran out before the endpoint answered.
    OutOfTime,
}

impl Setback {
    pub(super) fn health(&self) -> Health {
        // JSON-RPC 2.0: invalid request, unknown method, invalid parameters. The endpoint works, but does not
        // support this request.
        const REQUEST_ERROR_CODES: [i64; 3] = [-32600, -32601, -32602];
        match self {
            Self::Final(_) => Health::Healthy,
            Self::Rejected { code, .. } if REQUEST_ERROR_CODES.contains(code) => Health::Healthy,
            Self::Rejected { .. } | Self::Malformed(_) | Self::Unreachable(_) => Health::Failing,
            // Not `Failing`: otherwise a refused background search would also stop payments through a healthy node.
            Self::Declined { .. } => Health::Unknown,
            Self::WrongChain { .. } | Self::Cooling | Self::OutOfTime => Health::Unknown,
        }
    }
}

impl Setback {
    /// Returns whether the endpoint answered with an error that is about this request alone.
    pub(super) fn is_about_the_request(&self) -> bool {
        matches!(self, Self::Final(_) | Self::Rejected { .. } | Self::Declined { .. })
    }

    fn is_refusal(&self) -> bool {
        matches!(self, Self::Rejected { .. } | Self::Declined { .. })
    }
}

impl fmt::Display for Setback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Final(fault) => fault.fmt(f),
            Self::Rejected { code, message } | Self::Declined { code, message } => {
                write!(f, "refused: {message} (code {code})")
            }
            Self::Malformed(reason) => write!(f, "invalid answer: {reason}"),
            Self::Unreachable(reason) => f.write_str(reason),
            Self::WrongChain { answered } => write!(f, "serves chain {answered}"),
            Self::Cooling => f.write_str("paused after repeated failures"),
            Self::OutOfTime => f.write_str("no time was left"),
        }
    }
}

/// The setbacks of one request at several endpoints.
#[derive(Debug, Default)]
pub(super) struct Tally {
    setbacks: Vec<(usize, EndpointLabel, Setback)>,
}

impl Tally {
    pub(super) fn note(&mut self, position: usize, endpoint: &Endpoint, setback: Setback) {
        self.setbacks.push((position, endpoint.label().clone(), setback));
    }

    /// Returns whether a request was sent to any endpoint that is not known to be foreign.
    pub(super) fn any_was_asked(&self) -> bool {
        self.setbacks.iter().any(|(_, _, setback)| {
            !matches!(setback, Setback::WrongChain { .. } | Setback::Cooling)
        })
    }

    /// Combines the setbacks into one fault: their common cause, or the list of all. A refusal is reported only if
    /// every endpoint that was asked refused. Otherwise it could hide a timeout, after which a node may have
    /// accepted the broadcast.
    pub(super) fn into_fault(mut self, expected: ChainId) -> ChainFault {
        self.setbacks.sort_by_key(|(position, _, _)| *position);
        if let Some(fault) = self.common_cause(expected) {
            return fault;
        }
        let tried =
            self.setbacks.into_iter().map(|(_, label, why)| (label, why.to_string())).collect();
        ChainFault::Unavailable { tried }
    }

    fn common_cause(&self, expected: ChainId) -> Option<ChainFault> {
        let foreign = |why: &Setback| matches!(why, Setback::WrongChain { .. });
        let asked = |why: &Setback| !foreign(why) && !matches!(why, Setback::Cooling);
        let all_asked = |fits: fn(&Setback) -> bool| {
            self.setbacks.iter().map(|(_, _, why)| why).filter(|why| asked(why)).all(fits)
        };
        let all_foreign = self.setbacks.iter().all(|(_, _, why)| foreign(why));
        let relevant = |(_, _, why): &&(usize, EndpointLabel, Setback)| all_foreign || asked(why);
        let (_, label, first) = self.setbacks.iter().find(relevant)?;
        match first {
            Setback::WrongChain { answered } => Some(ChainFault::WrongChain {
                endpoint: label.clone(),
                expected,
                answered: *answered,
            }),
            Setback::Rejected { code, message } | Setback::Declined { code, message }
                if all_asked(Setback::is_refusal) =>
            {
                Some(ChainFault::Rejected { code: *code, message: message.clone() })
            }
            Setback::Malformed(reason) if all_asked(|why| matches!(why, Setback::Malformed(_))) => {
                Some(ChainFault::Malformed { endpoint: label.clone(), reason: reason.clone() })
            }
            Setback::Final(_)
            | Setback::Rejected { .. }
            | Setback::Declined { .. }
            | Setback::Malformed(_)
            | Setback::Unreachable(_)
            | Setback::Cooling
            | Setback::OutOfTime => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::config::RpcLimits;

    const OURS: ChainId = ChainId(7);

    fn refused(code: i64) -> Setback {
        Setback::Rejected { code, message: "no".to_owned() }
    }

    fn foreign() -> Setback {
        Setback::WrongChain { answered: ChainId(8) }
    }

    fn fault_of(setbacks: Vec<Setback>) -> ChainFault {
        let mut tally = Tally::default();
        for (position, setback) in setbacks.into_iter().enumerate() {
            let url = format!("https://node{position}.test");
            let endpoint = Endpoint::new(
                position,
                &url,
                RpcLimits::default(),
                bursar_outbound::PlainHttpHosts::ThisMachine,
            )
            .unwrap();
            tally.note(position, &endpoint, setback);
        }
        tally.into_fault(OURS)
    }

    #[test]
    fn a_cause_is_reported_only_if_all_asked_endpoints_share_it() {
        let silent = || Setback::Unreachable("timed out".to_owned());
        let broken = || Setback::Malformed("not JSON".to_owned());
        let rejected = |fault| matches!(fault, ChainFault::Rejected { code: -1, .. });
        assert!(rejected(fault_of(vec![refused(-1), refused(-2)])));
        assert!(rejected(fault_of(vec![Setback::Cooling, refused(-1), foreign()])));
        assert!(matches!(fault_of(vec![foreign(), foreign()]), ChainFault::WrongChain { .. }));
        assert!(matches!(fault_of(vec![broken(), foreign()]), ChainFault::Malformed { .. }));
        for mixed in [
            vec![silent(), refused(-1)],
            vec![refused(-1), silent()],
            vec![refused(-1), Setback::OutOfTime],
            vec![broken(), refused(-1)],
            vec![foreign(), Setback::Cooling],
            vec![Setback::OutOfTime],
        ] {
            let ChainFault::Unavailable { tried } = fault_of(mixed) else { panic!("a mixture") };
            assert!(!tried.is_empty());
        }
    }
}
