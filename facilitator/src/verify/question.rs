//! The question to a node about a payment, and the reading of its answer. One exchange, plus one simulation for tokens
//! and methods that need it.

use alloy_primitives::{Address, B256, Bytes, U256};
use alloy_sol_types::{SolCall, sol};
use bursar_chain::abi::multicall3::IMulticall3;
use bursar_chain::ports::{ChainFault, Question};
use bursar_chain::simulate::Means;
use bursar_submit::Call;

use crate::exact::contract_call::ContractCall;
use crate::exact::erc20::IErc20;
use crate::exact::registry;
use crate::network::Served;
use crate::node::Hurry;
use crate::payment::Payment;
use crate::transaction;

sol! {
    #[derive(Debug)]
    interface IWallet {
        function isValidSignature(bytes32 hash, bytes signature) external view returns (bytes4);
    }
}

/// What a contract wallet returns for a valid signature (EIP-1271).
const VOUCHED: [u8; 4] = [0x16, 0x26, 0xba, 0x7e];

/// Gas limit of a question that runs untrusted code, of the payer or of the token. It also bounds the size of the
/// answer.
const STRANGE_QUESTION_GAS: u64 = 3_000_000;
/// Gas limit of any other question.
const QUESTION_GAS: u64 = 10_000_000;

/// The facts that a node returned.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Answer {
    /// Whether the payer has code.
    pub(super) has_code: bool,
    /// The batched calls used up all gas, so nothing is known about any of them.
    pub(super) exhausted: bool,
    /// `DOMAIN_SEPARATOR()` of the token, if it has one.
    pub(super) separator: Option<B256>,
    pub(super) payer_has: Option<U256>,
    pub(super) payee_had: Option<U256>,
    /// The balance after the transfer; `None` if it could not be read in the same batch.
    pub(super) payee_has: Option<U256>,
    /// The method's own facts, in order.
    pub(super) facts: Vec<Option<Bytes>>,
    /// Whether the payer's contract confirms the signature.
    pub(super) vouched: Option<bool>,
    /// The revert data of the transfer; `None` if it succeeded.
    pub(super) failure: Option<Bytes>,
}

/// Asks a token for its `DOMAIN_SEPARATOR()`. `None` if it has none.
pub(super) async fn separator(served: &Served, token: Address) -> Result<Option<B256>, ChainFault> {
    let data = IErc20::DOMAIN_SEPARATORCall {}.abi_encode().into();
    let question = call(Address::ZERO, ContractCall { to: token, data }, STRANGE_QUESTION_GAS);
    let answers = served.chain.answers(vec![question]).await?;
    match answers.into_iter().next() {
        Some(Ok(bytes)) => Ok(word(&bytes)),
        Some(Err(ChainFault::Reverted { .. })) => Ok(None),
        Some(Err(fault)) => Err(fault),
        None => Err(ChainFault::Unavailable { tried: Vec::new() }),
    }
}

/// Asks everything that verifying a payment needs.
pub(super) async fn ask(
    served: &Served,
    payment: &Payment,
    hurry: Hurry,
) -> Result<Answer, ChainFault> {
    let method = registry::method(payment.method);
    let together = method.takes_any_caller() && served.has_multicall().await?;
    let is_known = served.knows_token(payment.terms.token);
    let strange = payment.contract_payer || !is_known;
    let gas = if strange { STRANGE_QUESTION_GAS } else { QUESTION_GAS };
    let looks = Looks::of(served, payment);
    // A settlement asks for the code each time, which costs no further exchange. An account may get code at any moment
    // (EIP-7702), and payments that share its transaction must not bear what that code does with gas.
    let known_code = served.codes.get(&payment.terms.payer, served.clock.mono_ms());
    let known_code = known_code.filter(|_known| hurry == Hurry::Now);
    let mut questions = Vec::new();
    if known_code.is_none() {
        questions.push(Question::Code(payment.terms.payer));
    }
    let as_sent = as_sent(served, payment);
    let is_sent_alone = as_sent.is_some();
    questions.extend(as_sent);
    if together {
        questions.push(looks.in_one(served, gas));
    } else {
        questions.extend(looks.one_by_one(served, gas));
    }
    // Untrusted tokens are asked about in an exchange of their own, so that their answers affect no other request.
    let answers = if is_known {
        served.node.ask(questions, hurry).await?
    } else {
        served.chain.answers(questions).await?
    };
    let mut answers = answers.into_iter();
    let mut next = || answers.next().unwrap_or(Err(ChainFault::Unavailable { tried: Vec::new() }));
    let has_code = match known_code {
        Some(known) => known,
        None => !next()?.is_empty(),
    };
    let sent = if is_sent_alone { reverted(next())?.err() } else { None };
    let mut answer = if together {
        match reverted(next())? {
            Ok(told) => looks.read_one(told)?,
            Err(_gone) => Answer { exhausted: true, ..Answer::default() },
        }
    } else {
        let each = (0..looks.count()).map(|_look| reverted(next())).collect::<Result<_, _>>()?;
        looks.read(each)
    };
    answer.has_code = has_code;
    answer.failure = answer.failure.or(sent);
    // A transfer of the network's own token is trusted to move the amount. For any other token this is checked.
    if !together
        && answer.failure.is_none()
        && payment.terms.token != served.row().stablecoin.address
    {
        looks.look_around(served, &mut answer).await?;
    }
    Ok(answer)
}

/// The exact transaction of a payer that is a contract. A contract can observe its gas: if it had enough for the
/// simulation but not for the transaction, the signer would pay for nothing.
fn as_sent(served: &Served, payment: &Payment) -> Option<Question> {
    if !payment.contract_payer {
        return None;
    }
    let gas = transaction::gas(&served.place, &[payment], served.config.gas_cap_contract)?;
    let sent = transaction::call(&served.place, &[payment], gas);
    let from = served.signers.first().copied().unwrap_or_default();
    Some(call(from, ContractCall { to: sent.to, data: sent.data }, gas))
}

/// Turns a revert into an answer. Other faults mean that no node answered.
fn reverted(answer: Result<Bytes, ChainFault>) -> Result<Result<Bytes, Bytes>, ChainFault> {
    match answer {
        Ok(data) => Ok(Ok(data)),
        Err(ChainFault::Reverted { data }) => Ok(Err(data)),
        // A call that ran and failed without a revert. Any other rejection is the node's own problem.
        Err(ChainFault::Rejected { message, .. }) if is_of_the_call(&message) => {
            Ok(Err(Bytes::new()))
        }
        Err(fault) => Err(fault),
    }
}

/// Whether a message blames the call itself, in the words of geth, Erigon, Nethermind, Besu, Nitro or anvil.
fn is_of_the_call(message: &str) -> bool {
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
struct Looks {
    separator: ContractCall,
    payer_balance: ContractCall,
    payee_balance: ContractCall,
    facts: Vec<ContractCall>,
    vouch: Option<ContractCall>,
    deployment: Option<ContractCall>,
    transfer: ContractCall,
}

impl Looks {
    fn of(served: &Served, payment: &Payment) -> Self {
        let method = registry::method(payment.method);
        let terms = &payment.terms;
        let token = |data: Vec<u8>| ContractCall { to: terms.token, data: data.into() };
        let balance = |owner| token(IErc20::balanceOfCall { owner }.abi_encode());
        let vouch = payment.contract_payer.then(|| {
            let asked = IWallet::isValidSignatureCall {
                hash: payment.digest,
                signature: payment.signature.clone(),
            };
            ContractCall { to: terms.payer, data: asked.abi_encode().into() }
        });
        let deployment = payment.deployment.as_ref().map(|deployment| ContractCall {
            to: deployment.factory,
            data: deployment.data.clone(),
        });
        Self {
            separator: token(IErc20::DOMAIN_SEPARATORCall {}.abi_encode()),
            payer_balance: balance(terms.payer),
            payee_balance: balance(terms.payee),
            facts: method.facts(&served.place, terms),
            vouch,
            deployment,
            transfer: method.transfer(&served.place, payment),
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
        all.extend(self.vouch.clone());
        all.push(self.transfer.clone());
        all
    }

    fn in_one(&self, served: &Served, gas: u64) -> Question {
        let mut all = self.in_order();
        all.push(self.payee_balance.clone());
        let each = all.into_iter().map(|look| IMulticall3::Call3 {
            target: look.to,
            allowFailure: true,
            callData: look.data,
        });
        let data = IMulticall3::aggregate3Call { calls: each.collect() }.abi_encode();
        let all = ContractCall { to: served.place.multicall3, data: data.into() };
        call(Address::ZERO, all, gas)
    }

    fn one_by_one(&self, served: &Served, gas: u64) -> Vec<Question> {
        let from = served.signers.first().copied().unwrap_or_default();
        self.in_order().into_iter().map(|look| call(from, look, gas)).collect()
    }

    /// Reads the payee's balance before and after a transfer that only our signers may make. Uses one simulation. If no
    /// node supports that, the balances remain unknown, and the receipt decides later what moved.
    async fn look_around(&self, served: &Served, answer: &mut Answer) -> Result<(), ChainFault> {
        let run = |look: &ContractCall| Call {
            to: look.to,
            value: U256::ZERO,
            data: look.data.clone(),
            gas_limit: QUESTION_GAS,
        };
        let calls = [&self.payee_balance, &self.transfer, &self.payee_balance].map(run);
        let from = served.signers.first().copied().unwrap_or_default();
        let told = served.simulator.run(&*served.chain, from, &calls).await?;
        if told.means == Means::OneByOne {
            return Ok(());
        }
        let mut balances = told.ends.into_iter().flatten().map(|end| number(&end.data));
        answer.payee_had = balances.next().flatten();
        answer.payee_has = balances.nth(1).flatten();
        Ok(())
    }

    fn read_one(&self, answer: Bytes) -> Result<Answer, ChainFault> {
        let expected = self.count().saturating_add(1);
        let unusable = || ChainFault::Rejected {
            code: 0,
            message: "Multicall3 gave another number of answers".to_owned(),
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
        let mut read = self.read(each);
        read.payee_has = after.as_ref().and_then(number);
        Ok(read)
    }

    fn read(&self, each: Vec<Result<Bytes, Bytes>>) -> Answer {
        let mut each = each.into_iter();
        let mut next = || each.next().unwrap_or(Err(Bytes::new()));
        let separator = next().ok().as_ref().and_then(word);
        let payer_has = next().ok().as_ref().and_then(number);
        let payee_had = next().ok().as_ref().and_then(number);
        let facts = self.facts.iter().map(|_fact| next().ok()).collect();
        if self.deployment.is_some() {
            // It may be deployed already, so a failure means nothing.
            let _done = next();
        }
        let vouched = self.vouch.as_ref().map(|_asked| {
            let answer = next().unwrap_or_default();
            answer.len() == 32 && answer.starts_with(&VOUCHED)
        });
        let failure = next().err();
        Answer {
            has_code: false,
            exhausted: false,
            separator,
            payer_has,
            payee_had,
            payee_has: None,
            facts,
            vouched,
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
