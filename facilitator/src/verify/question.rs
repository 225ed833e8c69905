//! The question to a node about a payment, and the reading of its answer. One exchange, plus one simulation for tokens
//! and methods that need it.

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_sol_types::{SolCall, sol};
use bursar_chain::abi::multicall3::IMulticall3;
use bursar_chain::ports::{ChainFault, Question};
use bursar_chain::simulate::SimulationMethod;
use bursar_submit::Call;

use crate::exact::contract_call::ContractCall;
use crate::exact::erc20::IErc20;
use crate::exact::registry;
use crate::network::NetworkContext;
use crate::node::Priority;
use crate::payment::Payment;
use crate::transaction;

sol! {
    #[derive(Debug)]
    interface IWallet {
        function isValidSignature(bytes32 hash, bytes signature) external view returns (bytes4);
    }
}

/// What a contract wallet returns for a valid signature (EIP-1271).
const EIP1271_MAGIC: [u8; 4] = [0x16, 0x26, 0xba, 0x7e];

/// Gas limit of a question that runs untrusted code, of the payer or of the token. It also bounds the size of the
/// answer.
const UNTRUSTED_CALL_GAS: u64 = 3_000_000;
/// Gas limit of any other question.
const TRUSTED_CALL_GAS: u64 = 10_000_000;

/// The facts that a node returned.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Answer {
    /// Whether the payer has code.
    pub(super) has_code: bool,
    /// The batched calls used up all gas, so nothing is known about any of them.
    pub(super) exhausted: bool,
    /// `DOMAIN_SEPARATOR()` of the token, if it has one.
    pub(super) separator: Option<B256>,
    pub(super) payer_balance: Option<U256>,
    pub(super) payee_before: Option<U256>,
    /// The balance after the transfer; `None` if it could not be read in the same batch.
    pub(super) payee_after: Option<U256>,
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
    let question = call(Address::ZERO, ContractCall { to: token, data }, UNTRUSTED_CALL_GAS);
    let answers = network.chain.answers(vec![question]).await?;
    match answers.into_iter().next() {
        Some(Ok(bytes)) => Ok(word(&bytes)),
        Some(Err(ChainFault::Reverted { .. })) => Ok(None),
        Some(Err(fault)) => Err(fault),
        None => Err(ChainFault::Unavailable { tried: Vec::new() }),
    }
}

/// Asks everything that verifying a payment needs.
pub(super) async fn ask(
    network: &NetworkContext,
    payment: &Payment,
    priority: Priority,
) -> Result<Answer, ChainFault> {
    let method = registry::method(payment.method);
    let is_batched = method.allows_any_sender() && network.has_multicall().await?;
    let is_trusted = network.trusts_token(payment.terms.token);
    let runs_untrusted_code = payment.contract_payer || !is_trusted;
    let gas = if runs_untrusted_code { UNTRUSTED_CALL_GAS } else { TRUSTED_CALL_GAS };
    let calls = Calls::of(network, payment);
    // A settlement asks for the code each time, which costs no further exchange. An account may get code at any moment
    // (EIP-7702), and payments that share its transaction must not bear what that code does with gas.
    let known_code = network.codes.get(&payment.terms.payer, network.clock.mono_ms());
    let known_code = known_code.filter(|_known| priority == Priority::Now);
    let mut questions = Vec::new();
    if known_code.is_none() {
        questions.push(Question::Code(payment.terms.payer));
    }
    let as_sent = as_sent(network, payment);
    let is_sent_alone = as_sent.is_some();
    questions.extend(as_sent);
    if is_batched {
        questions.push(calls.batched(network, gas));
    } else {
        questions.extend(calls.one_by_one(network, gas));
    }
    // Untrusted tokens are asked about in an exchange of their own, so that their answers affect no other request.
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
    let sent = if is_sent_alone { as_call_result(next())?.err() } else { None };
    let mut answer = if is_batched {
        match as_call_result(next())? {
            Ok(result) => calls.decode_batch(result)?,
            Err(_gone) => Answer { exhausted: true, ..Answer::default() },
        }
    } else {
        let each =
            (0..calls.count()).map(|_call| as_call_result(next())).collect::<Result<_, _>>()?;
        calls.decode(each)
    };
    answer.has_code = has_code;
    answer.failure = answer.failure.or(sent);
    // A transfer of the network's own token is trusted to move the amount. For any other token this is checked.
    if !is_batched
        && answer.failure.is_none()
        && payment.terms.token != network.spec().stablecoin.address
    {
        calls.read_balances_around_transfer(network, &mut answer).await?;
    }
    Ok(answer)
}

/// The exact transaction of a payer that is a contract. A contract can observe its gas: if it had enough for the
/// simulation but not for the transaction, the signer would pay for nothing.
fn as_sent(network: &NetworkContext, payment: &Payment) -> Option<Question> {
    if !payment.contract_payer {
        return None;
    }
    let gas = transaction::gas(&network.contracts, &[payment], network.config.gas_cap_contract)?;
    let sent = transaction::call(&network.contracts, &[payment], gas);
    let from = network.signers.first().copied().unwrap_or_default();
    Some(call(from, ContractCall { to: sent.to, data: sent.data }, gas))
}

/// CoreLoop a revert into an answer. Other faults mean that no node answered.
fn as_call_result(answer: Result<Bytes, ChainFault>) -> Result<Result<Bytes, Bytes>, ChainFault> {
    match answer {
        Ok(data) => Ok(Ok(data)),
        Err(ChainFault::Reverted { data }) => Ok(Err(data)),
        // A call that ran and failed without a revert. Any other rejection is the node's own problem.
        Err(ChainFault::Rejected { message, .. }) if is_call_failure(&message) => {
            Ok(Err(Bytes::new()))
        }
        Err(fault) => Err(fault),
    }
}

/// Whether a message blames the call itself, in the words of geth, Erigon, Nethermind, Besu, Nitro or anvil.
fn is_call_failure(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    let words = [
        "out of gas",
        "outofgas",
        "gas required exceeds",
        "gas too low",
        "intrinsic gas",
        "floor data gas",
        "invalid opcode",
        "invalid jump",
        "stack ",
        "execution",
        "evm error",
        "insufficient funds",
        "return data",
    ];
    words.iter().any(|word| message.contains(word))
}

fn call(from: Address, call: ContractCall, gas: u64) -> Question {
    Question::Call { from, to: call.to, data: call.data, gas }
}

/// The calls of a question, in the order in which they run.
struct Calls {
    separator: ContractCall,
    payer_balance: ContractCall,
    payee_balance: ContractCall,
    facts: Vec<ContractCall>,
    signature_check: Option<ContractCall>,
    deployment: Option<ContractCall>,
    transfer: ContractCall,
}

impl Calls {
    fn of(network: &NetworkContext, payment: &Payment) -> Self {
        let method = registry::method(payment.method);
        let terms = &payment.terms;
        let token = |data: Vec<u8>| ContractCall { to: terms.token, data: data.into() };
        let balance = |owner| token(IErc20::balanceOfCall { owner }.abi_encode());
        let signature_check = payment.contract_payer.then(|| {
            let question = IWallet::isValidSignatureCall {
                hash: payment.digest,
                signature: payment.signature.clone(),
            };
            ContractCall { to: terms.payer, data: question.abi_encode().into() }
        });
        let deployment = payment.deployment.as_ref().map(|deployment| ContractCall {
            to: deployment.factory,
            data: deployment.data.clone(),
        });
        Self {
            separator: token(IErc20::DOMAIN_SEPARATORCall {}.abi_encode()),
            payer_balance: balance(terms.payer),
            payee_balance: balance(terms.payee),
            facts: method.facts(&network.contracts, terms),
            signature_check,
            deployment,
            transfer: method.transfer(&network.contracts, payment),
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
        let each = all.into_iter().map(|one| IMulticall3::Call3 {
            target: one.to,
            allowFailure: true,
            callData: one.data,
        });
        let data = IMulticall3::aggregate3Call { calls: each.collect() }.abi_encode();
        let all = ContractCall { to: network.contracts.multicall3, data: data.into() };
        call(Address::ZERO, all, gas)
    }

    fn one_by_one(&self, network: &NetworkContext, gas: u64) -> Vec<Question> {
        let from = network.signers.first().copied().unwrap_or_default();
        self.in_order().into_iter().map(|one| call(from, one, gas)).collect()
    }

    /// Reads the payee's balance before and after a transfer that only our signers may make. Uses one simulation. If no
    /// node supports that, the balances remain unknown, and the receipt decides later what moved.
    async fn read_balances_around_transfer(
        &self,
        network: &NetworkContext,
        answer: &mut Answer,
    ) -> Result<(), ChainFault> {
        let run = |one: &ContractCall| Call {
            to: one.to,
            value: U256::ZERO,
            data: one.data.clone(),
            gas_limit: TRUSTED_CALL_GAS,
        };
        let calls = [&self.payee_balance, &self.transfer, &self.payee_balance].map(run);
        let from = network.signers.first().copied().unwrap_or_default();
        let result = network.simulator.run(&*network.chain, from, &calls).await?;
        if result.method == SimulationMethod::SingleCalls {
            return Ok(());
        }
        let mut balances = result.ends.into_iter().flatten().map(|end| number(&end.data));
        answer.payee_before = balances.next().flatten();
        answer.payee_after = balances.nth(1).flatten();
        Ok(())
    }

    fn decode_batch(&self, answer: Bytes) -> Result<Answer, ChainFault> {
        let expected = self.count().saturating_add(1);
        let unusable = || ChainFault::Rejected {
            code: 0,
            message: "Multicall3 returned an unexpected number of results".to_owned(),
        };
        let answers = IMulticall3::aggregate3Call::abi_decode_returns_validate(&answer)
            .map_err(|_odd| unusable())?;
        if answers.len() != expected {
            return Err(unusable());
        }
        let mut each: Vec<Result<Bytes, Bytes>> = answers
            .into_iter()
            .map(|one| if one.success { Ok(one.returnData) } else { Err(one.returnData) })
            .collect();
        let after = each.pop().and_then(Result::ok);
        let mut decoded = self.decode(each);
        decoded.payee_after = after.as_ref().and_then(number);
        Ok(decoded)
    }

    fn decode(&self, each: Vec<Result<Bytes, Bytes>>) -> Answer {
        let mut each = each.into_iter();
        let mut next = || each.next().unwrap_or(Err(Bytes::new()));
        let separator = next().ok().as_ref().and_then(word);
        let payer_balance = next().ok().as_ref().and_then(number);
        let payee_before = next().ok().as_ref().and_then(number);
        let facts = self.facts.iter().map(|_fact| next().ok()).collect();
        if self.deployment.is_some() {
            // It may be deployed already, so a failure means nothing.
            let _done = next();
        }
        let signature_confirmed = self.signature_check.as_ref().map(|_call| {
            let answer = next().unwrap_or_default();
            answer.len() == 32 && answer.starts_with(&EIP1271_MAGIC)
        });
        let failure = next().err();
        Answer {
            has_code: false,
            exhausted: false,
            separator,
            payer_balance,
            payee_before,
            payee_after: None,
            facts,
            signature_confirmed,
            failure,
        }
    }
}

fn number(bytes: &Bytes) -> Option<U256> {
    word(bytes).map(|word| U256::from_be_bytes(word.0))
}

/// Reads an answer of 32 bytes.
fn word(bytes: &Bytes) -> Option<B256> {
    (bytes.len() == 32).then(|| B256::from_slice(bytes))
}
