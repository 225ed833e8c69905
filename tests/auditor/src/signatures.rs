//! Checks the uses of keys: each signature needs an authorization, and none is made twice.

use crate::expect::{Expect, Input, OpenCall};
use crate::observations::{Order, Payment, Signed, SignedContent};
use crate::requests::{RequestRecord, RequestState};
use crate::{Auditor, Violation, violation};

impl Auditor {
    /// Returns the first rule that forbids signing for this agent; `None` if any possible state allows it.
    pub(crate) fn forbidding_rule(&self, agent: Option<&str>) -> Option<&'static str> {
        let mut rule = None;
        for w in &self.possible_configs {
            let judged = match agent {
                Some(agent) => w.config.may_sign_for(agent),
                None if w.config.is_open => Ok(()),
                None => Err("I-f"),
            };
            match judged {
                Ok(()) => return None,
                Err(broken) => rule = rule.or(Some(broken)),
            }
        }
        rule
    }

    pub(crate) fn on_signed(&mut self, s: &Signed) -> Result<(), Violation> {
        let signer = s.signer.to_lowercase();
        // A revocation that was never sent frees its nonce, and the next revocation may have the same bytes.
        let transaction = matches!(s.content, SignedContent::Transaction(_));
        if let Some(other) =
            self.digests.get(&s.digest).filter(|o| **o != s.request && !transaction)
        {
            let (digest, now) = (&s.digest, &s.request);
            let what = format!("digest {digest} was signed for {other:?} and now for {now:?}");
            return Err(violation("I-b", what));
        }
        if self.on_loan_signed(s)? || self.on_trade_signed(s)? {
            self.digests.insert(s.digest.clone(), s.request.clone());
            return Ok(());
        }
        let Some(id) = &s.request else {
            if let Some(rule) = self.forbidding_rule(None) {
                let what = format!("{signer} signed a transaction while the wallet is locked");
                return Err(violation(rule, what));
            }
            if !self.transfers.has_open_send(&signer) && !self.plans_may_use(&signer) {
                return Err(violation(
                    "transactions",
                    format!(
                        "{signer} signed {}, which is neither a payment nor a transfer that was ordered",
                        s.digest
                    ),
                ));
            }
            self.digests.insert(s.digest.clone(), None);
            self.count("signature: transaction");
            return Ok(());
        };
        let key = match self.book.by_id.get(id).copied() {
            Some(key) => Some(key),
            None => self.claim_signed(id, &signer)?,
        };
        let Some(key) = key else {
            // Several calls are possible. Their answers will show to which call the signature belongs.
            if let Some((_, before)) = self.unbound_payments.get(id).filter(|(_, d)| *d != s.digest)
            {
                let what = format!("request {id} was signed as {before} and now as {}", s.digest);
                return Err(violation("I-b", what));
            }
            self.digests.insert(s.digest.clone(), Some(id.clone()));
            self.unbound_payments.insert(id.clone(), (signer, s.digest.clone()));
            return Ok(());
        };
        let (agent, before) = match self.book.records.get(&key) {
            Some(rec) => (rec.agent.clone(), rec.digest.clone()),
            None => return Ok(()),
        };
        if let Some(rule) = self.forbidding_rule(Some(&agent)) {
            let again = rule == "I-i" && before.as_ref() == Some(&s.digest);
            if !again {
                return Err(violation(
                    rule,
                    format!(
                        "request {id} of {agent} was signed by {signer} at {:?}, but nothing may be signed for it (I-f locked, I-g frozen, I-i suspended or deleted)",
                        self.time.instant()
                    ),
                ));
            }
        }
        if before.as_ref().is_some_and(|d| *d != s.digest) {
            let what = format!("request {id} was signed as {before:?} and now as {}", s.digest);
            return Err(violation("I-b", what));
        }
        self.learn_from_signature(key, id);
        let seq = self.seq;
        let disk = self.disk_failed;
        if let Some(rec) = self.book.records.get_mut(&key) {
            if !rec.narrow(seq, |st| matches!(st, RequestState::Authorized { .. })) {
                let states = rec.states(None);
                let late =
                    states.iter().all(|s| matches!(s, RequestState::Held | RequestState::Expired));
                let rule = if late { "I-e" } else { "I-b" };
                let what = format!(
                    "request {id} was signed while its possible states are {states:?}; it must be authorized"
                );
                return Err(violation(rule, what));
            }
            if let Some(at) = disk
                && rec
                    .possible_states(None)
                    .all(|s| matches!(s, RequestState::Authorized { lo, .. } if *lo > at))
            {
                let what = format!("request {id} was signed, but it arrived after the disk failed");
                return Err(violation("disk", what));
            }
            check_signer(rec, id, &signer)?;
            rec.digest = Some(s.digest.clone());
        }
        self.digests.insert(s.digest.clone(), Some(id.clone()));
        self.count("signature: payment");
        Ok(())
    }

    /// Infers from a signature how the wallet judged the only open call or approval that can be behind it.
    fn learn_from_signature(&mut self, key: u64, id: &str) {
        let behind = |open: &OpenCall| match &open.input {
            Input::Sign(_) => open.rec == Some(key),
            Input::Order(Order::Approve { id: approved, .. }) => approved == id,
            _ => false,
        };
        let mut found = self.open.iter().filter(|(_, o)| behind(o));
        let (Some((ticket, open)), None) = (found.next(), found.next()) else { return };
        if open.is_isolated {
            let (ticket, open) = (*ticket, open.clone());
            self.keep_explaining(ticket, &open, |_, e| {
                matches!(e, Expect::Act { .. } | Expect::Approved { .. })
            });
        }
    }

    /// Finds the call to which an unknown id must belong; `None` if several are possible.
    fn claim_signed(&mut self, id: &str, signer: &str) -> Result<Option<u64>, Violation> {
        match self.may_have_signed(signer).as_slice() {
            [] => Err(violation(
                "I-m",
                format!(
                    "{signer} signed for the unknown request {id}, and no open or lost call may have been authorized"
                ),
            )),
            [key] => {
                self.bind(*key, id);
                Ok(Some(*key))
            }
            _ => Ok(None),
        }
    }

    /// Returns the calls without an id that this key may have signed for.
    fn may_have_signed(&self, signer: &str) -> Vec<u64> {
        let may = |rec: &RequestRecord| {
            rec.id.is_none()
                && rec.possible_states(None).any(|s| matches!(s, RequestState::Authorized { .. }))
                && rec
                    .authorizations
                    .iter()
                    .any(|(t, _)| t.payer.as_deref().is_none_or(|p| p == signer))
        };
        self.book.records.iter().filter(|(_, rec)| may(rec)).map(|(key, _)| *key).collect()
    }

    /// Assigns the remaining signatures, once no answer can show for which call each was made.
    pub(crate) fn assign_signatures(&mut self) {
        for (id, (signer, digest)) in std::mem::take(&mut self.unbound_payments) {
            let key = match self.may_have_signed(&signer).as_slice() {
                [] => None,
                [one] => {
                    self.bind(*one, &id);
                    Some(*one)
                }
                several => self.book.add_unmatched_id(&id, several.to_vec()),
            };
            let Some(rec) = key.and_then(|key| self.book.records.get_mut(&key)) else {
                self.unbound_payments.insert(id, (signer, digest));
                continue;
            };
            rec.narrow(self.seq, |st| matches!(st, RequestState::Authorized { .. }));
            rec.digest = Some(digest);
        }
    }

    /// Checks a payment header that the wallet returned for this request.
    pub(crate) fn check_header(&mut self, key: u64, payment: &Payment) -> Result<(), Violation> {
        let Some(rec) = self.book.records.get_mut(&key) else { return Ok(()) };
        let id = rec.id.clone().unwrap_or_default();
        if let Some(first) = &rec.payment {
            if first != payment {
                return Err(violation(
                    "I-b",
                    format!("request {id} was given {first:?} and now {payment:?}"),
                ));
            }
            return Ok(());
        }
        if let Some((signer, digest)) = self.unbound_payments.remove(&id) {
            check_signer(rec, &id, &signer)?;
            rec.digest = Some(digest);
        }
        if rec.digest.is_none() {
            return Err(violation(
                "I-m",
                format!("a header was returned for request {id}, but no key signed it"),
            ));
        }
        let fits: Vec<_> =
            rec.authorizations.iter().filter(|(t, at)| t.matches(at, payment)).cloned().collect();
        if fits.is_empty() {
            let due: Vec<String> =
                rec.authorizations.iter().map(|(t, at)| format!("{t:?} as of {at:?}")).collect();
            return Err(violation(
                "terms",
                format!("request {id} was given {payment:?}; expected: {}", due.join(" or ")),
            ));
        }
        if payment.signer.as_ref().is_some_and(|s| !s.eq_ignore_ascii_case(&payment.payer)) {
            return Err(violation(
                "terms",
                format!("request {id}: {payment:?} is not signed by its payer"),
            ));
        }
        rec.authorizations = fits;
        rec.payment = Some(payment.clone());
        let nonce = (payment.payer.to_lowercase(), payment.nonce.to_lowercase());
        if let Some(other) = self.nonces.insert(nonce, key).filter(|o| *o != key) {
            return Err(violation(
                "I-b",
                format!(
                    "request {id} carries the nonce {} of another request ({other})",
                    payment.nonce
                ),
            ));
        }
        self.count("header");
        Ok(())
    }

    pub(crate) fn on_redeemed(
        &mut self,
        chain: u64,
        payer: &str,
        nonce: &str,
    ) -> Result<(), Violation> {
        let payer = payer.to_lowercase();
        let key = self.nonces.get(&(payer.clone(), nonce.to_lowercase())).copied();
        let Some(rec) = key.and_then(|k| self.book.records.get_mut(&k)) else {
            let ours = |w: &crate::config::PossibleConfig| {
                w.config.accounts.values().any(|a| a.address.as_ref() == Some(&payer))
            };
            if self.possible_configs.iter().any(ours) {
                return Err(violation(
                    "I-a",
                    format!(
                        "money of {payer} moved under nonce {nonce}, which was never returned to an agent"
                    ),
                ));
            }
            return Ok(());
        };
        if rec.payment.as_ref().is_none_or(|p| p.chain != chain) {
            return Err(violation(
                "I-a",
                format!(
                    "nonce {nonce} of {payer} was redeemed on chain {chain}, not on the chain it was signed for"
                ),
            ));
        }
        if rec.failed_by_lookup {
            return Err(violation(
                "reports",
                format!(
                    "the payment of request {:?} was reported as failed by the wallet's own lookup, but the chain has executed it",
                    rec.id
                ),
            ));
        }
        rec.is_redeemed = true;
        Ok(())
    }
}

fn check_signer(rec: &RequestRecord, id: &str, signer: &str) -> Result<(), Violation> {
    let payers: Vec<_> = rec.authorizations.iter().filter_map(|(t, _)| t.payer.clone()).collect();
    if !payers.is_empty() && !payers.iter().any(|p| p == signer) {
        return Err(violation(
            "terms",
            format!("request {id} was signed by {signer}; it is to be paid from {payers:?}"),
        ));
    }
    Ok(())
}
