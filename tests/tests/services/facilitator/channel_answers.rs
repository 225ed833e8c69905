//! Compares answers of the facilitator with the model's answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use bursar_core::networks::Network;
use serde_json::{Value, json};

use crate::facilitator::channel::reason;
use crate::facilitator::channel_actors::Actors;
use crate::facilitator::channel_model::{ChannelState, Mined, Model};
use crate::facilitator::channel_requests::{Expected, Job, NamedTransaction, Success};

/// The result of an action.
#[derive(Debug, Clone)]
pub(crate) enum ActionResult {
    Answer(u16, Value),
    Mined(Mined),
}

impl ActionResult {
    /// Returns the mined transaction, if the action was an actor's own transaction.
    pub(crate) fn mined(&self) -> Option<Mined> {
        match self {
            Self::Mined(mined) => Some(*mined),
            Self::Answer(..) => None,
        }
    }
}

/// The answers of a seed so far.
pub(crate) struct Answers {
    actors: Arc<Actors>,
    network: String,
    /// The successful answer to each job.
    first_successes: BTreeMap<Job, Value>,
}

impl Answers {
    pub(crate) fn new(actors: Arc<Actors>, network: &Network) -> Self {
        Self { actors, network: network.caip2().to_string(), first_successes: BTreeMap::new() }
    }

    /// Stores a success, for comparison with its repeats.
    pub(crate) fn store_success(&mut self, job: &Job, body: &Value) {
        self.first_successes.insert(job.clone(), body.clone());
    }

    /// Compares an answer or a transaction with the expected one.
    ///
    /// In a pair of simultaneous requests, an answer may also show the state of any of `states`.
    ///
    /// # Errors
    /// Describes the difference.
    pub(crate) fn check(
        &self,
        expected: &Expected,
        observed: &ActionResult,
        states: &[&Model],
    ) -> Result<(), String> {
        let is_race = !states.is_empty();
        let (status, body) = match (observed, expected) {
            (ActionResult::Mined(mined), Expected::Mined(ok)) if mined.ok == *ok => return Ok(()),
            (ActionResult::Mined(_), _) => {
                return Err("the transaction must not end like this".to_owned());
            }
            (ActionResult::Answer(status, body), _) => (*status, body),
        };
        let differs = |wanted: Value| Err(format!("the answer must be {wanted}"));
        match expected {
            Expected::Mined(_) => Err("no transaction was sent".to_owned()),
            Expected::Report(channel, state) => {
                self.check_report(*channel, state.as_ref(), (status, body))
            }
            // The nonce is used, but no node shows by which transaction. The job may be done, so it is not refused.
            Expected::Refused(code) if status == 503 && is_nonce_code(code) => Ok(()),
            _any if status != 200 => Err("the status must be 200".to_owned()),
            Expected::Refused(code) => {
                let moved = body["transaction"].as_str().is_some_and(|hash| !hash.is_empty());
                let is_refused = body["success"] == false || body["isValid"] == false;
                if reason(body) == code && is_refused && !moved {
                    Ok(())
                } else {
                    differs(json!(code))
                }
            }
            Expected::Duplicate { job, is_same } => {
                let settled_in =
                    self.first_successes.get(job).map(|answer| answer["transaction"].clone());
                let hash = settled_in.filter(|hash| *is_same && *hash != "").unwrap_or(Value::Null);
                let is_named = is_race || body["extra"]["transaction"] == hash;
                if reason(body) == "duplicate_settlement" && body["transaction"] == "" && is_named {
                    Ok(())
                } else {
                    differs(json!(["duplicate_settlement", hash]))
                }
            }
            Expected::Elsewhere(mined) => {
                let hash = json!(mined.hash);
                let moved = body["transaction"].as_str().is_some_and(|hash| !hash.is_empty());
                let is_named = is_race || body["extra"]["transaction"] == hash;
                if reason(body) == "duplicate_settlement" && !moved && is_named {
                    Ok(())
                } else {
                    differs(json!(["duplicate_settlement", hash]))
                }
            }
            Expected::Again(job) => match self.first_successes.get(job) {
                Some(answer) if answer == body => Ok(()),
                other => differs(json!(other)),
            },
            Expected::Valid { payer, state } => {
                let mut wanted =
                    json!({ "isValid": true, "payer": self.actors.payers[*payer].address() });
                if let Some((channel, state)) = state {
                    wanted["extra"] = self.state_json(*channel, state);
                }
                if *body == wanted { Ok(()) } else { differs(wanted) }
            }
            Expected::Success(success) => self.check_success(success, body, states),
        }
    }

    fn check_success(
        &self,
        success: &Success,
        body: &Value,
        states: &[&Model],
    ) -> Result<(), String> {
        let is_race = !states.is_empty();
        let transaction = body["transaction"].as_str().unwrap_or_default();
        let is_proven = match success.proof {
            _any if is_race => true,
            NamedTransaction::Own => !transaction.is_empty(),
            NamedTransaction::Nothing => transaction.is_empty(),
        };
        let mut wanted = json!({
            "success": true, "transaction": body["transaction"],
            "network": self.network,
        });
        if let Some(payer) = success.payer {
            wanted["payer"] = json!(self.actors.payers[payer].address());
        }
        if let Some(amount) = success.amount {
            wanted["amount"] = json!(amount.to_string());
        }
        if let Some((channel, state)) = &success.state {
            let mut json = self.state_json(*channel, state);
            let shown = &body["extra"]["channelState"];
            let is_refund = matches!(success.job, Job::Refund(..));
            for model in states {
                let seen = model.view.channels[*channel];
                // The answer to a deposit always has the balance of its event. The answer to a refund always has the
                // refund's own nonce.
                let left = seen.balance.saturating_sub(success.amount.unwrap_or_default());
                let other = self.state_json(*channel, &seen);
                let names = ["totalClaimed", "withdrawRequestedAt"].into_iter();
                let names = names.chain([if is_refund { "balance" } else { "refundNonce" }]);
                for name in names.filter(|name| shown[name] == other[name]) {
                    json[name] = other[name].clone();
                }
                let left = json!(left.max(seen.claimed).to_string());
                if is_refund && shown["balance"] == left {
                    json["balance"] = left;
                }
            }
            wanted["extra"] = json!({ "channelState": json });
        }
        if *body == wanted && is_proven {
            return Ok(());
        }
        Err(format!("the answer must be {wanted} by {:?}", success.proof))
    }

    fn state_json(&self, channel: usize, state: &ChannelState) -> Value {
        let mut json =
            self.actors.channels[channel].state(state.balance, state.claimed, state.nonce);
        json["withdrawRequestedAt"] = json!(state.initiated_s);
        json
    }

    fn check_report(
        &self,
        channel: usize,
        state: Option<&ChannelState>,
        (status, body): (u16, &Value),
    ) -> Result<(), String> {
        let Some(state) = state else {
            return if status == 404 {
                Ok(())
            } else {
                Err("the channel must be unknown".to_owned())
            };
        };
        let mut wanted = self.state_json(channel, state);
        wanted["available"] = json!(state.available().to_string());
        let pending = (state.initiated_s > 0).then(|| state.pending.to_string());
        let shows = |(name, value): (&String, &Value)| body[name] == *value;
        let fields = wanted.as_object().expect("an object");
        if fields.iter().all(shows) && body["withdrawal"]["amount"] == json!(pending) {
            return Ok(());
        }
        Err(format!("the channel must have {wanted} and the withdrawal {pending:?}"))
    }
}

fn is_nonce_code(code: &str) -> bool {
    ["permit2_invalid_nonce", "invalid_exact_evm_nonce_already_used"].contains(&code)
}
