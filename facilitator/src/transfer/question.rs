//! Asks a node about a payment and reads its answer. This takes one exchange, and one more lookup until Multicall3 is
//! found. Some tokens and methods need one further simulation.

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_sol_types::SolCall;
use bursar_chain::ports::{ChainFault, Question, SimulationRequest};
use bursar_chain::simulate::SimulationMethod;
use bursar_submit::Call;

use crate::contract_call::ContractCall;
use crate::network::NetworkContext;
use crate::node::Priority;
use crate::payment::Payment;
use crate::reads::{
    CallOutcome, TRUSTED_CALL_GAS, UNTRUSTED_CALL_GAS, batch_outcomes, batch_question,
    call_question, is_accepted, number, signature_call, word,
};
use crate::sent_transaction;
use crate::transaction;
use crate::transfer::erc20::IErc20;
use crate::transfer::registry;
use crate::work::{SenderRule, Work};

/// The facts that a node returned.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct PaymentFacts {
    /// Whether the payer has code.
    pub(super) has_code: bool,
    /// Whether the batched calls used up all gas. Then nothing is known about any of them.
    pub(super) calls_used_all_gas: bool,
    /// `DOMAIN_SEPARATOR()` of the token, if it has one.
    pub(super) separator: Option<B256>,
    pub(super) payer_balance: Option<U256>,
    pub(super) payee_balance_before: Option<U256>,
    /// The balance after the transfer; `None` if it could not be read in the same batch or simulation.
    pub(super) payee_balance_after: Option<U256>,
    /// The method's own facts, in order.
    pub(super) facts: Vec<Option<Bytes>>,
    /// Whether the payer's contract confirms the signature.
    pub(super) signature_confirmed: Option<bool>,
    /// The revert data of the transfer; `None` if it succeeded.
    pub(super) failure: Option<Bytes>,
}

/// Asks a token for its `DOMAIN_SEPARATOR()`. `None` if it has none.
pub(super) async fn separator(
    network: &NetworkContext,
    token: Address,
) -> Result<Option<B256>, ChainFault> {
    let data = IErc20::DOMAIN_SEPARATORCall {}.abi_encode().into();
    let call = ContractCall { to: token, data };
    let question = call_question(Address::ZERO, call, UNTRUSTED_CALL_GAS);
    let answers = network.chain.answers(vec![question]).await?;
    match answers.into_iter().next() {
        Some(Ok(bytes)) => Ok(word(&bytes)),
        Some(Err(ChainFault::Reverted { .. })) => Ok(None),
        Some(Err(fault)) => Err(fault),
        None => Err(ChainFault::Unavailable { tried: Vec::new() }),
    }
}

/// Asks a node for all facts that the verification of a payment needs.
pub(super) async fn ask(
    network: &NetworkContext,
    payment: &Payment,
    priority: Priority,
) -> Result<PaymentFacts, ChainFault> {
    let is_batched = payment.sender() == SenderRule::Any && network.has_multicall().await?;
    let is_trusted = network.trusts_token(payment.terms.token);
    let runs_untrusted_code = payment.is_contract_payer || !is_trusted;
    let gas = if runs_untrusted_code { UNTRUSTED_CALL_GAS } else { TRUSTED_CALL_GAS };
    let calls = PaymentCalls::of(network, payment);
    // A settlement asks for the code each time, which costs no further exchange. An account may get code at any moment
    // (EIP-7702), and that code must not use up the gas of payments in the same transaction.
    let known_code = network.code_cache.get(&payment.terms.payer, network.clock.mono_ms());
    let known_code = known_code.filter(|_known| priority == Priority::Now);
    let mut questions = Vec::new();
    if known_code.is_none() {
        questions.push(Question::Code(payment.terms.payer));
    }
    let sent = if payment.is_contract_payer {
        sent_transaction::question(network, &payment.clone().into())
    } else {
        None
    };
    let is_sent_alone = sent.is_some();
    questions.extend(sent.map(|(question, _gas)| question));
    if is_batched {
        questions.push(calls.batched(network, gas));
    } else {
        questions.extend(calls.one_by_one(gas));
    }
    // Untrusted tokens get a separate exchange, so that they cannot affect the answers to other requests.
    let answers = if is_trusted {
        network.node.ask(questions, priority).await?
    } else {
        network.chain.answers(questions).await?
    };
    let mut answers = answers.into_iter();
    let mut next = || answers.next().unwrap_or(Err(ChainFault::Unavailable { tried: Vec::new() }));
    let has_code = match known_code {
        Some(known) => known,
        None => !next()?.is_empty(),
    };
    let sent_revert = if is_sent_alone { CallOutcome::of(next())?.revert_data() } else { None };
    let mut answer = if is_batched {
        match CallOutcome::of(next())? {
            CallOutcome::Returned(data) => calls.decode_batch(&data)?,
            CallOutcome::Reverted(_data) => {
                PaymentFacts { calls_used_all_gas: true, ..PaymentFacts::default() }
            }
        }
    } else {
        let outcomes =
            (0..calls.count()).map(|_call| CallOutcome::of(next())).collect::<Result<_, _>>()?;
        calls.decode(outcomes)
    };
    answer.has_code = has_code;
    answer.failure = answer.failure.or(sent_revert);
    // The network's dollar token is trusted to move the amount. For any other token the balances are checked.
    if !is_batched
        && answer.failure.is_none()
        && payment.terms.token != network.table_row().stablecoin.address
    {
        calls.read_balances_around_transfer(network, &mut answer).await?;
    }
    Ok(answer)
}

/// The calls of a question, in the order in which they run.
struct PaymentCalls {
    /// The sender of calls that are not batched.
    from: Address,
    separator: ContractCall,
    payer_balance: ContractCall,
    payee_balance: ContractCall,
    facts: Vec<ContractCall>,
    signature_check: Option<ContractCall>,
    deployment: Option<ContractCall>,
    transfer: ContractCall,
}

impl PaymentCalls {
    fn of(network: &NetworkContext, payment: &Payment) -> Self {
        let method = registry::method(payment.method);
        let terms = &payment.terms;
        let token = |data: Vec<u8>| ContractCall { to: terms.token, data: data.into() };
        let balance = |owner| token(IErc20::balanceOfCall { owner }.abi_encode());
        let signature_check = payment
            .is_contract_payer
            .then(|| signature_call(terms.payer, payment.digest, payment.signature.clone()));
        let deployment = payment.deployment.as_ref().map(|deployment| ContractCall {
            to: deployment.factory,
            data: deployment.data.clone(),
        });
        Self {
            from: network.simulated_sender(payment.sender()),
            separator: token(IErc20::DOMAIN_SEPARATORCall {}.abi_encode()),
            payer_balance: balance(terms.payer),
            payee_balance: balance(terms.payee),
            facts: method.diagnostic_calls(&network.contracts, terms),
            signature_check,
            deployment,
            transfer: transaction::sent_call(&network.contracts, payment),
        }
    }

    /// Number of calls, without the second read of the payee's balance, which is only meaningful in a batch.
    fn count(&self) -> usize {
        self.in_order().len()
    }

    fn in_order(&self) -> Vec<ContractCall> {
        let mut all =
            vec![self.separator.clone(), self.payer_balance.clone(), self.payee_balance.clone()];
        all.extend(self.facts.iter().cloned());
        all.extend(self.deployment.clone());
        all.extend(self.signature_check.clone());
        all.push(self.transfer.clone());
        all
    }

    fn batched(&self, network: &NetworkContext, gas: u64) -> Question {
        let mut all = self.in_order();
        all.push(self.payee_balance.clone());
        batch_question(network, all, gas)
    }

    fn one_by_one(&self, gas: u64) -> Vec<Question> {
        self.in_order().into_iter().map(|call| call_question(self.from, call, gas)).collect()
    }

    /// Reads the payee's balance before and after a transfer that cannot be batched, by one simulation. If no node
    /// supports such a simulation, the balances remain unknown, and the receipt shows later how much moved.
    async fn read_balances_around_transfer(
        &self,
        network: &NetworkContext,
        answer: &mut PaymentFacts,
    ) -> Result<(), ChainFault> {
        let call_of = |call: &ContractCall| Call {
            to: call.to,
            value: U256::ZERO,
            data: call.data.clone(),
            gas_limit: 0,
        };
        let calls = [&self.payee_balance, &self.transfer, &self.payee_balance].map(call_of);
        let request = SimulationRequest::of(self.from, calls.into());
        let result = network.simulator.run(&*network.chain, request).await?;
        if result.method == SimulationMethod::SingleCalls {
            return Ok(());
        }
        let mut balances = result.calls.into_iter().flatten().map(|call| number(&call.data));
        answer.payee_balance_before = balances.next().flatten();
        answer.payee_balance_after = balances.nth(1).flatten();
        Ok(())
    }

    fn decode_batch(&self, data: &Bytes) -> Result<PaymentFacts, ChainFault> {
        let mut outcomes = batch_outcomes(data, self.count().saturating_add(1))?;
        let payee_after = outcomes.pop().and_then(CallOutcome::returned_data);
        let mut answer = self.decode(outcomes);
        answer.payee_balance_after = payee_after.as_ref().and_then(number);
        Ok(answer)
    }

    /// Reads the outcomes of [`PaymentCalls::in_order`]. A missing outcome counts as a revert without data.
    fn decode(&self, outcomes: Vec<CallOutcome>) -> PaymentFacts {
        let mut outcomes = outcomes.into_iter();
        let mut next = || outcomes.next().unwrap_or(CallOutcome::Reverted(Bytes::new()));
        let separator = next().returned_data().as_ref().and_then(word);
        let payer_balance = next().returned_data().as_ref().and_then(number);
        let payee_before = next().returned_data().as_ref().and_then(number);
        let facts = self.facts.iter().map(|_fact| next().returned_data()).collect();
        if self.deployment.is_some() {
            // Ignores the outcome of the deployment, which fails if the wallet is already deployed.
            let _done = next();
        }
        let signature_confirmed =
            self.signature_check.as_ref().map(|_call| is_accepted(next().returned_data()));
        let failure = next().revert_data();
        PaymentFacts {
            has_code: false,
            calls_used_all_gas: false,
            separator,
            payer_balance,
            payee_balance_before: payee_before,
            payee_balance_after: None,
            facts,
            signature_confirmed,
            failure,
        }
    }
}
