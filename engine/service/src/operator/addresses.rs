//! The commands `seed …` and `address …`.

mod payment_request;

use std::sync::Arc;

use bursar_control::answers::{AddressAnswer, Answer, SecretField, SeedAnswer};
use bursar_control::grammar::{AddressOrder, BalancesOrder, PhraseLength, SeedOrder};
use bursar_control::wire::SecretPrompt;
use bursar_core::codes::Code;
use bursar_core::derivation::Layout;
use bursar_core::fault::Fault;
use bursar_core::ids::{Name, SeedId};
use bursar_domain::Action;
use bursar_domain::event::AddressAdded;
use bursar_domain::wallets::{Backing, Wallet};
use secrecy::ExposeSecret;
use zeroize::Zeroizing;

use self::payment_request::PaymentRequest;
use super::dialogue::Dialogue;
use super::dry_run::{announce, will_ask};
use super::support::confirm::agree;
use super::support::lookup::{find_address, wallet};
use super::support::password::prove_operator;
use super::support::{Done, act, describe, require_trusted_journal};
use super::{balances, ledger, mandates, sends};
use crate::blocking::blocking;
use crate::context::EngineContext;
use crate::vault::seed::{Seed, WordCount};

pub(super) async fn seed(
    engine: &Arc<EngineContext>,
    order: SeedOrder,
    dialogue: &mut dyn Dialogue,
) -> Result<Done, Fault> {
    let known = wallet(engine)?;
    match order {
        SeedOrder::List => {
            let seeds = known.seeds.iter().map(|(id, seed)| describe::seed(*id, seed)).collect();
            Ok(Answer::Seeds { seeds }.into())
        }
        SeedOrder::Words { seed: id } => {
            let known = known.seeds.get(&id).copied().ok_or_else(|| no_seed(id))?;
            prove_operator(engine, dialogue).await?;
            let vault = Arc::clone(&engine.vault);
            let phrase = blocking(move || vault.seed_phrase(id)).await??;
            dialogue.send_secret(Zeroizing::new(phrase.as_bytes().to_vec())).await?;
            Ok(Done {
                answer: Answer::Seed(describe::seed(id, &known)),
                warnings: Vec::new(),
                secret: Some(SecretField::Phrase),
            })
        }
        SeedOrder::Create { words } => {
            let count = match words {
                PhraseLength::Twelve => WordCount::Twelve,
                PhraseLength::TwentyFour => WordCount::TwentyFour,
            };
            let entropy = engine.random_secret()?;
            let made = Seed::generate(count, entropy.expose_secret());
            let phrase = made.phrase().map_err(internal_fault)?;
            let answer = add_seed(engine, made).await?;
            dialogue.send_secret(Zeroizing::new(phrase.as_bytes().to_vec())).await?;
            Ok(Done {
                answer: Answer::Seed(answer),
                warnings: Vec::new(),
                secret: Some(SecretField::Phrase),
            })
        }
        SeedOrder::Import => {
            if !engine.vault.is_unlocked() {
                return Err(Fault::new(Code::WalletLocked));
            }
            will_ask(SecretPrompt::SeedPhrase);
            announce(|| "adds the imported seed to the wallet file".to_owned())?;
            let phrase = dialogue.secret(SecretPrompt::SeedPhrase).await?;
            let read = Seed::from_phrase(&phrase)
                .map_err(|error| Fault::because(Code::BadInput, error.to_string()))?;
            Ok(Answer::Seed(add_seed(engine, read).await?).into())
        }
    }
}

/// Saves the seed in the wallet file, then records its event: the journal never names a seed that the file lacks.
async fn add_seed(engine: &Arc<EngineContext>, made: Seed) -> Result<SeedAnswer, Fault> {
    let _one_at_a_time = engine.wallet_changes.lock().await;
    if !engine.vault.is_unlocked() {
        return Err(Fault::new(Code::WalletLocked));
    }
    require_trusted_journal(engine)?;
    announce(|| "adds a new seed to the wallet file, and shows its words".to_owned())?;
    let id = wallet(engine)?.next_seed();
    let words = u8::try_from(made.word_count()).map_err(internal_fault)?;
    let vault = Arc::clone(&engine.vault);
    blocking(move || vault.add_seed(id, made)).await??;
    act(engine, Action::AddSeed { id, words }).await?;
    let added = wallet(engine)?.seeds.get(&id).copied();
    added.map(|seed| describe::seed(id, &seed)).ok_or(Fault::new(Code::InternalError))
}

pub(super) async fn address(
    engine: &Arc<EngineContext>,
    order: AddressOrder,
    dialogue: &mut dyn Dialogue,
) -> Result<Done, Fault> {
    match order {
        AddressOrder::List => {
            let known = wallet(engine)?;
            let addresses = known.addresses.values().map(|address| describe::address(address));
            Ok(Answer::Addresses { addresses: addresses.collect() }.into())
        }
        AddressOrder::Show { label, qr, amount, token, network } => {
            let known = Arc::clone(find_address(&*wallet(engine)?, &label)?);
            let wanted = PaymentRequest { amount, token, network };
            let uri =
                if qr { Some(wanted.uri(&engine.edition.rules, known.address)?) } else { None };
            let shown = AddressAnswer { uri, ..describe::address(&known) };
            Ok(Answer::Address(shown).into())
        }
        AddressOrder::Rename { label, to } => {
            act(engine, Action::RenameAddress { from: label, to: to.clone() }).await?;
            show(engine, &to)
        }
        AddressOrder::Delete { label } => delete(engine, &label, dialogue).await,
        AddressOrder::Export { label } => export(engine, &label, dialogue).await,
        AddressOrder::Balance { label, network } => {
            let order = BalancesOrder { address: Some(label), network };
            balances::run(engine, order).await
        }
        AddressOrder::Send(order) => sends::send(engine, &order, dialogue).await,
        AddressOrder::Sends => sends::list(engine),
        AddressOrder::Cancel { id } => sends::cancel(engine, &id).await,
        AddressOrder::Ledger(order) => ledger::run(engine, order, dialogue).await,
        AddressOrder::Create { label, index, description, seed } => {
            create(engine, &label, index, description, seed).await
        }
    }
}

async fn create(
    engine: &Arc<EngineContext>,
    label: &Name,
    index: u32,
    description: String,
    seed: Option<SeedId>,
) -> Result<Done, Fault> {
    let _one_at_a_time = engine.wallet_changes.lock().await;
    let id = which_seed(&*wallet(engine)?, seed)?;
    if description.chars().count() > 200 || description.chars().any(char::is_control) {
        return Err(Fault::because(
            Code::BadInput,
            "A description has at most 200 characters, and no control characters.",
        ));
    }
    let vault = Arc::clone(&engine.vault);
    let (path, address) = blocking(move || vault.derive(id, index)).await??;
    let added = AddressAdded {
        label: label.clone(),
        description,
        index,
        backing: Backing::Seed(id),
        path: path.clone(),
        address,
    };
    act(engine, Action::AddAddress(Box::new(added))).await?;
    let vault = Arc::clone(&engine.vault);
    blocking(move || vault.activate_address(id, &path)).await??;
    show(engine, label)
}

fn show(engine: &EngineContext, label: &Name) -> Result<Done, Fault> {
    let known = wallet(engine)?;
    let known = known.address(label).ok_or(Fault::new(Code::InternalError))?;
    Ok(Answer::Address(describe::address(known)).into())
}

/// Removes an address from the wallet. The money of the address stays on the chain, and the operator can restore the
/// address from its seed and index.
async fn delete(
    engine: &Arc<EngineContext>,
    label: &Name,
    dialogue: &mut dyn Dialogue,
) -> Result<Done, Fault> {
    let known = wallet(engine)?.address(label).cloned();
    if let Some(known) = &known {
        let restore = match known.backing {
            Backing::Seed(seed) => {
                format!("`address create <label> {}` with the seed {seed}", known.index)
            }
            Backing::Device { layout: Layout::Custom } => format!(
                "`address ledger add {} <label> --layout custom` with the path {}",
                known.index, known.path
            ),
            Backing::Device { layout } => format!(
                "`address ledger add {} <label> --layout {}` with the same Ledger",
                known.index,
                layout.name()
            ),
        };
        let lines = vec![
            format!("{} ({})", known.address.to_checksum(None), known.label),
            format!("Its money stays there; {restore} restores it."),
        ];
        let published = mandates::published_by(&engine.core.view().state, known.address);
        let lines = [lines, published].concat();
        agree(dialogue, lines, "Remove it?").await?;
    }
    act(engine, Action::DeleteAddress { label: label.clone() }).await?;
    let name = known.map_or_else(|| label.clone(), |known| known.label.clone());
    Ok(Answer::Deleted { name: name.as_str().to_owned() }.into())
}

/// Sends the private key to the operator after a password check.
async fn export(
    engine: &Arc<EngineContext>,
    label: &Name,
    dialogue: &mut dyn Dialogue,
) -> Result<Done, Fault> {
    let known = Arc::clone(find_address(&*wallet(engine)?, label)?);
    let Backing::Seed(seed) = known.backing else {
        let why = format!("{} is on a Ledger, and its key never leaves it.", known.label);
        return Err(Fault::because(Code::LedgerSignNotAvailable, why));
    };
    prove_operator(engine, dialogue).await?;
    let (vault, path) = (Arc::clone(&engine.vault), known.path.clone());
    let key = blocking(move || vault.private_key(seed, &path)).await??;
    dialogue.send_secret(Zeroizing::new(key.as_bytes().to_vec())).await?;
    Ok(Done {
        answer: Answer::Address(describe::address(&known)),
        warnings: Vec::new(),
        secret: Some(SecretField::AddressKey),
    })
}

/// Returns the named seed, or the only one if none is named.
fn which_seed(wallet: &Wallet, named: Option<SeedId>) -> Result<SeedId, Fault> {
    let all: Vec<SeedId> = wallet.seeds.keys().copied().collect();
    match (named, all.as_slice()) {
        (Some(id), _) if wallet.seeds.contains_key(&id) => Ok(id),
        (Some(id), _) => Err(no_seed(id)),
        (None, [only]) => Ok(*only),
        (None, []) => Err(Fault::because(
            Code::NothingFound,
            "There is no seed yet: run `seed create` or `seed import`.",
        )
        .with_hint("seed create")),
        (None, several) => {
            let names: Vec<String> = several.iter().map(ToString::to_string).collect();
            Err(Fault::because(
                Code::Ambiguous,
                format!("There are several seeds ({}): choose one with --seed.", names.join(", ")),
            ))
        }
    }
}

fn no_seed(id: SeedId) -> Fault {
    Fault::because(Code::NothingFound, format!("There is no seed {id}: see `seed list`."))
}

fn internal_fault(error: impl std::fmt::Display) -> Fault {
    Fault::new(Code::InternalError).with_detail(error)
}
